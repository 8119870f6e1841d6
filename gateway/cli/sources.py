"""Where a command's configuration comes from: a file, or the URL of one upstream."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from gateway.cli.common import refuse


def source(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str]:
    """The file or the URL, the other of them empty. The command line is asked first, the environment where it says nothing."""
    named = "--config", "--upstream"
    file, url = arguments.config, arguments.upstream
    if file is None and url is None:
        named = "DECLUSTER_CONFIG", "DECLUSTER_UPSTREAM"
        file, url = (environ.get(name) or None for name in named)
    if file is not None and url is not None:
        refuse(arguments, f"{named[0]} and {named[1]} exclude each other: write the URL into the file, as base_url of an upstream")
    if not file and not url:
        refuse(arguments, f"where to? for example: {arguments.parser.prog} --upstream https://api.openai.com/v1, or --config FILE")
    return file or "", url or ""
