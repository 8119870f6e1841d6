"""`decluster serve`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

from gateway.cli.common import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, Parser, add, complain, explain, port, refuse
from gateway.cli.sources import source

if TYPE_CHECKING:
    from gateway.config import Overrides
    from gateway.settings import Settings


def add_serve(commands: argparse._SubParsersAction[Parser]) -> None:
    serve = add(
        commands,
        "serve",
        _serve,
        "run the gateway",
        """  decluster serve --upstream https://api.openai.com/v1        the client's own key passes through
  decluster serve --upstream http://127.0.0.1:8000 --port 80
  decluster serve --config decluster.yaml
  decluster serve --config decluster.yaml --print-config      what is in force, secrets hidden

environment:
  DECLUSTER_CONFIG, DECLUSTER_UPSTREAM   stand in for --config and --upstream where neither is given""",
    )
    serve.add_argument("--config", metavar="FILE", help="the settings, in YAML (docs/configuration.md)")
    serve.add_argument("--upstream", metavar="URL", help="the one upstream, where no file is wanted; with or without /v1")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=port, help="port to listen on, 0 for a free one (default 8080)")
    serve.add_argument("--workers", type=_workers, default=1, metavar="N", help="processes behind the one port (default 1)")
    serve.add_argument("--print-config", action="store_true", help="print the effective settings as YAML and end")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="least level to log (default info)")
    serve.add_argument("--log-format", choices=("json", "text"), help="default json; text with --upstream in a terminal")


def _serve(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway import config

    file, url = source(arguments, environ)
    overrides = config.Overrides(arguments.host, arguments.port, arguments.log_level, arguments.log_format)

    def read() -> Settings:
        return config.load(file, environ, overrides) if file else config.from_upstream(url, _for_terminal(overrides))

    try:
        settings = read()
    except config.ConfigError as error:
        for line in error.lines():
            complain(arguments, line)
        return EXIT_USAGE
    if arguments.print_config:
        sys.stdout.write(config.show(settings))
        return EXIT_OK
    return _run(arguments, settings, read if file else None, environ)


def record(arguments: argparse.Namespace) -> int:
    """`decluster trace record`: the gateway, noting every stream of its one upstream."""
    from dataclasses import replace

    from gateway import config
    from gateway.settings import Tracing

    out = arguments.out.expanduser().absolute()
    if not out.parent.is_dir():
        refuse(arguments, f"--out: {out.parent} is no folder")
    try:
        settings = config.from_upstream(arguments.upstream, _for_terminal(config.Overrides(arguments.host, arguments.port)))
    except config.ConfigError as error:
        for line in error.lines():
            complain(arguments, line)
        return EXIT_USAGE
    return _run(arguments, replace(settings, trace=Tracing(str(out), (settings.upstreams[0].name,))))


def _run(
    arguments: argparse.Namespace,
    settings: Settings,
    reload: Callable[[], Settings] | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    import logging

    from gateway import config, logs, server
    from gateway.server.workers import Worker

    logs.setup(settings.log.level, settings.log.format)
    for warning in config.warnings(settings):
        logging.getLogger("decluster").warning(warning)
    signal.signal(signal.SIGTERM, _end_cleanly)
    worker = Worker.of(environ or {})
    try:
        if worker is None and getattr(arguments, "workers", 1) > 1:
            return server.supervise(settings, arguments.workers, arguments.argv, reload)
        return server.run(settings, reload, worker)
    except OSError as error:
        complain(arguments, explain(error, settings.listen.host, settings.listen.port))
        return EXIT_FAILURE
    except SystemExit as end:  # how uvicorn ends where it could not start, with a code of its own; it has logged why
        return EXIT_FAILURE if end.code else EXIT_OK


def _end_cleanly(number: int, frame: object) -> NoReturn:
    """SIGTERM before the server listens, and once more after it has drained, when uvicorn hands the signal on: an end as asked."""
    raise SystemExit(EXIT_OK)


def _for_terminal(overrides: Overrides) -> Overrides:
    """Without a file nobody has asked for JSON, and a person who looks at a terminal does not want it."""
    from dataclasses import replace

    return replace(overrides, log_format="text") if overrides.log_format is None and sys.stderr.isatty() else overrides


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 256):
        raise argparse.ArgumentTypeError("a number of processes, from 1 to 256")
    return int(text)
