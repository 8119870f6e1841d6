"""From a YAML file, or a URL on the command line, to `gateway.settings.Settings`; and back to YAML with the secrets hidden.

Everything wrong with a file is found in one reading and raised as one ConfigError.
"""

from __future__ import annotations

from gateway.config.load import Overrides, from_upstream, load, loads, warnings
from gateway.config.problems import ConfigError, Problem
from gateway.config.show import show

__all__ = ["ConfigError", "Overrides", "Problem", "from_upstream", "load", "loads", "show", "warnings"]
