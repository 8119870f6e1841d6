"""`decluster trace`: record, show, replay, import."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from gateway.cli.common import EXIT_CODES, Parser, add, port


def add_trace(commands: argparse._SubParsersAction[Parser]) -> None:
    trace = commands.add_parser(
        "trace",
        help="arrival times of streams without their text: record, show, replay, import",
        description="Arrival times of streams without their text: record, show, replay, import.",
        epilog="""examples:
  decluster trace record --upstream https://api.openai.com/v1 --out bursts.jsonl
  decluster trace show bursts.jsonl
  decluster trace replay bursts.jsonl --max-lag content=0.4
  curl -N --trace-time --trace curl.txt https://... ; decluster trace import curl.txt

"""
        + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    trace.set_defaults(parser=trace)
    kinds = trace.add_subparsers(title="commands", metavar="COMMAND", required=True)
    record = add(
        kinds,
        "record",
        _record,
        "run the gateway and note every stream's arrival times in a file; no text, no keys",
        "  decluster trace record --upstream https://api.openai.com/v1 --out bursts.jsonl",
    )
    record.add_argument("--upstream", metavar="URL", required=True, help="as with `decluster serve`")
    record.add_argument("--out", type=Path, metavar="FILE", required=True, help="a trace a line is added; at 16 MiB it becomes FILE.1")
    record.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    record.add_argument("--port", type=port, help="port to listen on, 0 for a free one (default 8080)")
    show = add(
        kinds,
        "show",
        _show,
        "draw the curves of a file's traces",
        "  decluster trace show bursts.jsonl\n  decluster trace show bursts.jsonl --html bursts.html",
    )
    replay = add(
        kinds,
        "replay",
        _replay,
        "play traces through the pacer, offline, with other settings",
        """  decluster trace replay bursts.jsonl
  decluster trace replay bursts.jsonl --max-lag content=0.4 --max-lag reasoning=1 --set end=0.25
  decluster trace replay bursts.jsonl --which-lag""",
    )
    for command in (show, replay):
        command.add_argument("file", type=Path, help="traces: one JSON object, or one a line")
        command.add_argument("--only", metavar="NAME", help="the trace of that name")
        command.add_argument("--html", type=Path, metavar="FILE", help="as one HTML file that needs nothing else")
        command.add_argument("--png", type=Path, metavar="FILE", help="the first trace as a picture (needs decluster[png])")
    replay.add_argument(
        "--max-lag",
        action="append",
        default=[],
        type=_lag,
        metavar="KIND=S",
        help="content, reasoning or tool; seconds (default: the promise)",
    )
    replay.add_argument("--set", action="append", default=[], type=_setting, metavar="NAME=S", help="switch, end or frame, in seconds")
    replay.add_argument("--which-lag", action="store_true", help="and what other lags would have done, and which was enough")
    imported = add(
        kinds,
        "import",
        _import,
        "make traces of timings that curl or a browser noted",
        """  curl -N --trace-time --trace curl.txt -H "Authorization: Bearer $KEY" -d @body.json https://.../v1/chat/completions
  decluster trace import curl.txt --out bursts.jsonl
  decluster trace import page.har""",
    )
    imported.add_argument("file", type=Path, help="curl's --trace output, or a HAR file")
    imported.add_argument("--out", type=Path, metavar="FILE", help="default: stdout")


def _record(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway.cli.serve import record

    return record(arguments)


def _show(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway.traces import command

    return command.show(arguments.file, arguments.only, arguments.html, arguments.png)


def _replay(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway.traces import command

    settings = command.settings_of(arguments.max_lag, arguments.set)
    return command.replayed(arguments.file, arguments.only, settings, arguments.which_lag, arguments.html, arguments.png)


def _import(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway.traces import command

    return command.imported(arguments.file, arguments.out)


def _lag(text: str) -> tuple[str, float]:
    return _named(text, ("content", "reasoning", "tool"))


def _setting(text: str) -> tuple[str, float]:
    return _named(text, ("switch", "end", "frame"))


def _named(text: str, names: tuple[str, ...]) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if name not in names or not 0.005 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"{', '.join(names[:-1])} or {names[-1]}, =, and seconds from 0.005 to 60")
    return name, seconds
