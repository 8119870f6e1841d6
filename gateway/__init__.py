"""decluster: a gateway that turns bursty LLM streams into steady, complete and honestly ended ones."""

__version__ = "0.1.0"
