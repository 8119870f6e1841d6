"""The command line: what may be said, and which part of the program each command starts.

Owns arguments, exit codes and the one line that an error is told in. It must not know how anything works. What a command needs
is imported when that command runs, so that `--help` and a usage error cost no more than argparse.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from gateway import __version__

if TYPE_CHECKING:
    from gateway.config import Overrides
    from gateway.settings import Settings

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
SIMULATOR_PORT = 9101  # as DESIGN has it: documents and examples name it

Handler = Callable[[argparse.Namespace, Mapping[str, str]], int]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Runs one command and gives its exit code. argv and environ are the process's own unless given."""
    environ = os.environ if environ is None else environ
    try:
        arguments, rest = _parser().parse_known_args(argv)
        if rest:
            _refuse_rest(arguments.parser, rest)
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


def _parser() -> _Parser:
    parser = _Parser(
        prog="decluster",
        description="A gateway that turns bursty LLM streams into steady, complete and honestly ended ones.",
        epilog="""examples:
  decluster demo                                        see what it does; no key, no network
  decluster serve --upstream https://api.openai.com     then base_url="http://127.0.0.1:8080/v1"
  decluster serve --config decluster.yaml

"""
        + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"decluster {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_serve(commands)
    _add_simulate(commands)
    _add_demo(commands)
    return parser


def _add(commands: argparse._SubParsersAction[_Parser], name: str, handler: Handler, what: str, examples: str) -> argparse.ArgumentParser:
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


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    serve = _add(
        commands,
        "serve",
        _serve,
        "run the gateway",
        """  decluster serve --upstream https://api.openai.com           the client's own key passes through
  decluster serve --upstream http://127.0.0.1:8000 --port 80
  decluster serve --config decluster.yaml
  decluster serve --config decluster.yaml --print-config      what is in force, secrets hidden

environment:
  DECLUSTER_CONFIG, DECLUSTER_UPSTREAM   stand in for --config and --upstream where neither is given""",
    )
    serve.add_argument("--config", metavar="FILE", help="the settings, in YAML (docs/configuration.md)")
    serve.add_argument("--upstream", metavar="URL", help="the one upstream, where no file is wanted; with or without /v1")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=_port, help="port to listen on, 0 for a free one (default 8080)")
    serve.add_argument("--print-config", action="store_true", help="print the effective settings as YAML and end")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="least level to log (default info)")
    serve.add_argument("--log-format", choices=("json", "text"), help="default json; text with --upstream in a terminal")


def _add_simulate(commands: argparse._SubParsersAction[_Parser]) -> None:
    simulate = _add(
        commands,
        "simulate",
        _simulate,
        "run the embedded upstream alone: bursty scenarios, chosen by model name",
        """  decluster simulate
  decluster serve --upstream http://127.0.0.1:9101            in a second terminal""",
    )
    simulate.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    simulate.add_argument("--port", type=_port, default=SIMULATOR_PORT, help="port to listen on (default %(default)s)")


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    demo = _add(
        commands,
        "demo",
        _demo,
        "show a raw and a smooth stream side by side, with figures at the end; no key, no network",
        """  decluster demo
  decluster demo --plain > demo.txt""",
    )
    demo.add_argument("--model", metavar="NAME", help="the scenario, one of those that `decluster simulate` serves")
    demo.add_argument("--plain", action="store_true", help="plain text, as it is without a terminal")


def _serve(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway import config

    file, url = _source(arguments, environ)
    overrides = config.Overrides(arguments.host, arguments.port, arguments.log_level, arguments.log_format)
    try:
        settings = config.load(file, environ, overrides) if file else config.from_upstream(url, _for_terminal(overrides))
    except config.ConfigError as error:
        for line in error.lines():
            _complain(arguments, line)
        return EXIT_USAGE
    if arguments.print_config:
        sys.stdout.write(config.show(settings))
        return EXIT_OK
    return _run(arguments, settings)


def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    import logging

    from gateway import config, logs, server

    logs.setup(settings.log.level, settings.log.format)
    for warning in config.warnings(settings):
        logging.getLogger("decluster").warning(warning)
    signal.signal(signal.SIGTERM, _end_cleanly)
    try:
        return server.run(settings)
    except OSError as error:
        _complain(arguments, explain(error, settings.listen.host, settings.listen.port))
        return EXIT_FAILURE
    except SystemExit as end:  # how uvicorn ends where it could not start, with a code of its own; it has logged why
        return EXIT_FAILURE if end.code else EXIT_OK


def _end_cleanly(number: int, frame: object) -> NoReturn:
    """SIGTERM before the server listens, and once more after it has drained, when uvicorn hands the signal on: an end as asked."""
    raise SystemExit(EXIT_OK)


def _simulate(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway import simulator

    try:
        return simulator.run(arguments.host, arguments.port)
    except OSError as error:
        _complain(arguments, explain(error, arguments.host, arguments.port))
        return EXIT_FAILURE


def _demo(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway.simulator import demo

    return demo.run(arguments.model, arguments.plain)


def _refuse_rest(parser: argparse.ArgumentParser, rest: list[str]) -> NoReturn:
    """Names the first thing that was not understood, if it is an option: anything else may be a secret in the wrong place."""
    from difflib import get_close_matches

    unknown = next((word.partition("=")[0] for word in rest if word.startswith("-")), None)
    if unknown is None:
        parser.error("an argument too many")
    options = [option for action in parser._actions for option in action.option_strings]
    near = get_close_matches(unknown[:32], options, 1)
    parser.error(f"unknown option {unknown!r}" + (f"; did you mean {near[0]}?" if near else ""))


def _source(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str]:
    """The file or the URL, the other of them empty. The command line is asked first, the environment where it says nothing."""
    named = "--config", "--upstream"
    file, url = arguments.config, arguments.upstream
    if file is None and url is None:
        named = "DECLUSTER_CONFIG", "DECLUSTER_UPSTREAM"
        file, url = (environ.get(name) or None for name in named)
    if file is not None and url is not None:
        _refuse(arguments, f"{named[0]} and {named[1]} exclude each other: write the URL into the file, as base_url of an upstream")
    if not file and not url:
        _refuse(arguments, "where to? for example: decluster serve --upstream https://api.openai.com, or --config FILE")
    return file or "", url or ""


def _for_terminal(overrides: Overrides) -> Overrides:
    """Without a file nobody has asked for JSON, and a person who looks at a terminal does not want it."""
    from dataclasses import replace

    return replace(overrides, log_format="text") if overrides.log_format is None and sys.stderr.isatty() else overrides


def _port(text: str) -> int:
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


def _complain(arguments: argparse.Namespace, message: str) -> None:
    sys.stderr.write(f"{arguments.parser.prog}: error: {message}\n")


def _refuse(arguments: argparse.Namespace, message: str) -> NoReturn:
    _complain(arguments, message)
    raise SystemExit(EXIT_USAGE)
