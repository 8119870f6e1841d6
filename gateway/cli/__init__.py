"""The command line: what may be said, and which part of the program each command starts.

Owns arguments, exit codes and the one line that an error is told in; a module a command. It must not know how anything works. What a
command needs is imported when that command runs, so that `--help` and a usage error cost no more than argparse.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NoReturn

from gateway import __version__
from gateway.cli.bench import add_bench
from gateway.cli.check import add_check, add_key
from gateway.cli.common import EXIT_CODES, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, Handler, Parser, explain
from gateway.cli.cost import add_cost
from gateway.cli.serve import add_serve
from gateway.cli.simulate import SIMULATOR_PORT, add_demo, add_simulate
from gateway.cli.trace import add_trace

__all__ = ["SIMULATOR_PORT", "explain", "main"]


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Runs one command and gives its exit code. argv and environ are the process's own unless given."""
    environ = os.environ if environ is None else environ
    try:
        arguments, rest = _parser().parse_known_args(argv)
        if rest:
            _refuse_rest(arguments.parser, rest)
        arguments.argv = list(sys.argv[1:] if argv is None else argv)  # for workers, which are started alike
        handler: Handler = arguments.handler
        code = handler(arguments, environ)
        sys.stdout.flush()  # here, so that a reader who has gone is met in this try
    except SystemExit as end:  # argparse's way to end, after --help and after an error
        return end.code if isinstance(end.code, int) else EXIT_FAILURE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `decluster --help | head -1`: not an error, and nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_OK
    return code


def _parser() -> Parser:
    parser = Parser(
        prog="decluster",
        description="A gateway that turns bursty LLM streams into steady, complete and honestly ended ones.",
        epilog="""examples:
  decluster demo                                        see what it does; no key, no network
  decluster serve --upstream https://api.openai.com/v1  then base_url="http://127.0.0.1:8080/v1"
  decluster serve --config decluster.yaml

"""
        + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"decluster {__version__} ({_build()})")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_serve(commands)
    add_simulate(commands)
    add_demo(commands)
    add_bench(commands)
    add_trace(commands)
    add_check(commands)
    add_key(commands)
    add_cost(commands)
    return parser


def _build() -> str:
    """Of the two that there are (hatch_build.py); found without importing any of it."""
    spec = find_spec("gateway.piece")
    return "pure Python" if spec is None or (spec.origin or "").endswith((".py", ".pyc")) else "compiled"


def _refuse_rest(parser: argparse.ArgumentParser, rest: list[str]) -> NoReturn:
    """Names the first thing that was not understood, if it is an option: anything else may be a secret in the wrong place."""
    from difflib import get_close_matches

    unknown = next((word.partition("=")[0] for word in rest if word.startswith("-")), None)
    if unknown is None:
        parser.error("an argument too many")
    options = [option for action in parser._actions for option in action.option_strings]
    near = get_close_matches(unknown[:32], options, 1)
    parser.error(f"unknown option {unknown!r}" + (f"; did you mean {near[0]}?" if near else ""))
