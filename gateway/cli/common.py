"""What all commands share: the parser, exit codes, and the one line that an error is told in."""

from __future__ import annotations

import argparse
import errno
import socket
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
EXIT_CODES = """exit codes:
  0    ended as asked, also after one Ctrl-C or a SIGTERM
  1    could not run, e.g. because the port is in use
  2    the command line or the configuration is wrong; what, is said on stderr, one problem a line
  130  Ctrl-C while it was starting, or a second time while it was ending
"""

Handler = Callable[[argparse.Namespace, Mapping[str, str]], int]


class Parser(argparse.ArgumentParser):
    more: Callable[[], str] | None = None  # what the help says beside the examples; asked for only when it is shown

    def format_help(self) -> str:
        text = super().format_help()
        return text if self.more is None else text.replace("\nexamples:\n", f"\n{self.more()}\n\nexamples:\n", 1)

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def add(commands: argparse._SubParsersAction[Parser], name: str, handler: Handler, what: str, examples: str) -> Parser:
    command = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"examples:\n{examples}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(handler=handler, parser=command)
    return command


def port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535):
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def explain(error: OSError, host: str, port: int) -> str:
    """One line on why it could not listen, with the remedy."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{place} is in use: end the other program, or choose another --port"
    if error.errno == errno.EACCES:
        return f"{place} is not allowed to this user: choose a --port above 1023"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{place} is no address of this machine: choose another --host, such as 127.0.0.1 or 0.0.0.0"
    return f"could not run: {error.strerror or type(error).__name__}"


def complain(arguments: argparse.Namespace, message: str) -> None:
    sys.stderr.write(f"{arguments.parser.prog}: error: {message}\n")


def refuse(arguments: argparse.Namespace, message: str) -> NoReturn:
    complain(arguments, message)
    raise SystemExit(EXIT_USAGE)
