"""Decisions about a request, as values: no IO, no clock."""
