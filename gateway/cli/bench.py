"""`decluster bench`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from gateway.cli.common import Parser, add


def add_bench(commands: argparse._SubParsersAction[Parser]) -> None:
    bench = add(
        commands,
        "bench",
        _bench,
        "measure streams with and without the gateway, in turn, in one run",
        """  decluster bench --target https://api.openai.com/v1 --model gpt-5-mini -n 20 -c 4
  decluster bench --target http://127.0.0.1:9101 --model clusters -n 10 -c 10    (with `decluster simulate`)
  decluster bench --target http://127.0.0.1:8080 --against http://127.0.0.1:9101 --html report.html

Without --against a gateway is started in front of the target and the two are compared. A table goes to
stdout, or JSON; progress to stderr. Beyond this machine more than 100 requests want --yes. Ctrl-C ends the
run and reports what was measured until then; so does a target of which the first 20 requests all fail.

environment:
  OPENAI_API_KEY       sent as the bearer token (ANTHROPIC_API_KEY with --api messages)""",
    )
    bench.add_argument("--target", metavar="URL", required=True, help="base URL of an OpenAI-compatible API; with or without /v1")
    bench.add_argument("--against", metavar="URL", help="what to compare with; default: the target behind a gateway of its own")
    bench.add_argument("-n", dest="requests", type=_count, default=1000, metavar="N", help="requests to each (default %(default)s)")
    bench.add_argument("-c", dest="concurrency", type=_at_once, default=50, metavar="N", help="at once, in all (default %(default)s)")
    bench.add_argument("--model", default="smooth-then-clusters", help="model to ask for (default %(default)s, one of `simulate`)")
    bench.add_argument("--api", choices=("chat", "responses", "messages"), default="chat", help="default %(default)s")
    bench.add_argument("--prompts", type=Path, metavar="FILE", help='one prompt a line, or objects with a "prompt"; taken in turn')
    bench.add_argument("--max-tokens", type=_count, metavar="N", help="most tokens of an answer")
    bench.add_argument("--header", action="append", default=[], type=_header, metavar="NAME:VALUE", help="sent with each request")
    bench.add_argument("--patience", type=_seconds, default=300.0, metavar="S", help="for one stream (default %(default)g s)")
    bench.add_argument("--deadline", type=_seconds, default=3600.0, metavar="S", help="for the whole run (default %(default)g s)")
    bench.add_argument("--json", action="store_true", help="JSON to stdout in place of the table")
    bench.add_argument("--html", type=Path, metavar="FILE", help="write a report with curves, one file that needs nothing else")
    bench.add_argument("--yes", action="store_true", help="yes, as many requests as that to another machine")


def _bench(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway.bench.command import Options, bench

    return bench(
        Options(
            target=arguments.target,
            against=arguments.against,
            api=arguments.api,
            model=arguments.model,
            requests=arguments.requests,
            concurrency=arguments.concurrency,
            prompts=arguments.prompts,
            most_tokens=arguments.max_tokens,
            patience_s=arguments.patience,
            deadline_s=arguments.deadline,
            fields=tuple(arguments.header),
            key=environ.get("ANTHROPIC_API_KEY" if arguments.api == "messages" else "OPENAI_API_KEY") or None,
            json=arguments.json,
            html=arguments.html,
            sure=arguments.yes,
        )
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 100_000):
        raise argparse.ArgumentTypeError("a whole number from 1 to 100000")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 86_400:
        raise argparse.ArgumentTypeError("seconds, from 0.1 to 86400")
    return value


def _at_once(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 1000):
        raise argparse.ArgumentTypeError("a whole number from 1 to 1000")
    return int(text)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip().lower(), value.strip()
    if not colon or re.fullmatch(r"[!#$%&'*+.^_`|~0-9a-z-]+", name) is None or re.fullmatch(r"[\x20-\x7e\xa0-\xff]*", value) is None:
        raise argparse.ArgumentTypeError("a header is NAME:VALUE")
    if name in ("content-length", "transfer-encoding", "connection", "content-encoding"):
        raise argparse.ArgumentTypeError(f"{name} says how the request is sent, which is not for you to say")
    return name, value
