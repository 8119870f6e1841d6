"""`decluster simulate` and `decluster demo`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping
from pathlib import Path

from gateway.cli.common import EXIT_FAILURE, EXIT_USAGE, Parser, add, complain, explain, port, refuse

SIMULATOR_PORT = 9101  # documents and examples name it


def add_simulate(commands: argparse._SubParsersAction[Parser]) -> None:
    simulate = add(
        commands,
        "simulate",
        _simulate,
        "run the embedded upstream alone: bursty scenarios, chosen by model name",
        """  decluster simulate
  decluster simulate --trace bursts.jsonl
  decluster serve --upstream http://127.0.0.1:9101            in a second terminal""",
    )
    simulate.more = _scenarios
    simulate.add_argument("--trace", type=Path, metavar="FILE", help="recorded streams (`decluster trace`), as models of their own names")
    simulate.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    simulate.add_argument("--port", type=port, default=SIMULATOR_PORT, help="port to listen on (default %(default)s)")


def add_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    demo = add(
        commands,
        "demo",
        _demo,
        "show a raw and a smooth stream side by side, with figures at the end; no key, no network",
        """  decluster demo
  decluster demo --plain > demo.txt""",
    )
    demo.more = _scenarios
    demo.add_argument("--model", metavar="NAME", help="the scenario, one of those below (default smooth-then-clusters)")
    demo.add_argument("--plain", action="store_true", help="plain text, as it is without a terminal")


def _scenarios() -> str:
    from gateway.simulator import scenarios

    lines = []
    for scenario in scenarios.TABLE.values():
        lines += textwrap.wrap(f"  {scenario.name:<22}{scenario.about}", 108, subsequent_indent=" " * 24)
    return "scenarios, by model name:\n" + "\n".join(lines)


def _simulate(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway import simulator

    if arguments.trace is not None:
        from gateway.simulator import scenarios
        from gateway.traces import TraceError, load

        try:
            print("played by name: " + ", ".join(scenarios.learn(load(arguments.trace))))
        except TraceError as error:
            complain(arguments, str(error))
            return EXIT_USAGE
    try:
        return simulator.run(arguments.host, arguments.port)
    except OSError as error:
        complain(arguments, explain(error, arguments.host, arguments.port))
        return EXIT_FAILURE


def _demo(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway.simulator import demo, scenarios

    if arguments.model is not None and scenarios.find(arguments.model) is None:
        refuse(arguments, f"--model: no scenario is called {arguments.model[:64]!r}; there are {', '.join(scenarios.TABLE)}, silent-N")
    return demo.run(arguments.model, arguments.plain)
