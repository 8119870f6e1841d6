"""`decluster demo`: one scenario of the embedded upstream, played directly and through the gateway at the same time."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console
from rich.live import Live

from gateway.companion import GATEWAY
from gateway.simulator import chat, demo_view, play, scenarios
from gateway.simulator.encode import json_bytes
from gateway.simulator.measure import BIN_S, Reading, Recording, Ruler, listen
from gateway.simulator.stage import Stage, StageError
from gateway.simulator.text import PARTS

DEFAULT: Final = "smooth-then-clusters"
_FRAMES_S: Final = 12  # pictures a second: text appears as if it flowed
_PROGRESS_S: Final = 1.0  # between lines of the plain form
_LOOK_S: Final = 0.1  # and how soon it sees that both have ended
_PATIENCE_S: Final = 10.0  # beyond the scenario's own length: a stream that hangs is given up
_LEAST_COLUMNS: Final = 60  # for two panels side by side; below it the plain form
_LEAST_LINES: Final = 12
_LAST_PICTURE_S: Final = 0.8  # so that the eye gets the end before the table comes
_PROMPT: Final = "Refactor the parser so that a cut may fall anywhere, please."


def run(model: str | None = None, plain: bool = False, *, speed: float = 1.0, command: Sequence[str] = GATEWAY) -> int:
    """Plays, shows, and returns the exit code: 0, or 1 with one line that says why (2: no such model), or 130 after Ctrl-C.

    speed: of the upstream's clock. command: what starts the gateway, without its arguments."""
    name = model or DEFAULT
    scenario = scenarios.find(name)
    if scenario is None:
        _failed(f"no scenario is called {name[:64]!r}; there are {', '.join(scenarios.TABLE)}, silent-N")
        return 2
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows question marks, and no traceback
    body = {"model": name, "stream": True, "messages": [{"role": "user", "content": _PROMPT}]}
    plan = play.plan(scenario, chat.read(body, {}))
    headers = {"authorization": "Bearer sk-demo", "x-simulate-speed": f"{speed:g}"}
    readings = [Reading(Recording(), Ruler({part: plan.tokens(part) for part in PARTS})) for _ in demo_view.NAMES]
    raw, smooth = readings
    patience_s = plan.ends_at_s / speed + _PATIENCE_S
    try:
        with _ended_by_signals():
            with Stage(command) as stage:
                print(_greeting(stage, scenario), flush=True)
                players = [
                    stage.submit(listen(f"{url}/v1/chat/completions", json_bytes(body), headers, reading.recording, patience_s))
                    for url, reading in zip((stage.upstream, stage.gateway), readings, strict=True)
                ]
                (_plain_lines if plain or not _is_screen() else _live)(scenario, readings)
                wait(players)
            _show(raw, smooth, plain)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except StageError as error:
        return _failed(str(error))
    return _verdict(scenario, raw, smooth)


def _verdict(scenario: scenarios.Scenario, raw: Reading, smooth: Reading) -> int:
    if raw.text != smooth.text:
        return _failed("the two texts differ")
    if raw.whole != smooth.whole:
        return _failed(f"the direct stream ended so: {raw.ending()}; the gateway's so: {smooth.ending()}")
    if not raw.whole and scenario.rejection is None and scenario.ending in ("finish", "length"):
        return _failed(f"the stream did not come to its end: {raw.ending()}")
    return 0


def _failed(why: str) -> int:
    print(f"decluster demo: {why}", file=sys.stderr)
    return 1


def _is_screen() -> bool:
    size = shutil.get_terminal_size()
    dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
    return sys.stdout.isatty() and not dumb and size.columns >= _LEAST_COLUMNS and size.lines >= _LEAST_LINES


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _greeting(stage: Stage, scenario: scenarios.Scenario) -> str:
    return (
        f"{scenario.name}: {scenario.about}\n"
        f"upstream  {stage.upstream}/v1  (embedded)\n"
        f"gateway   {stage.gateway}/v1\n"
        f"live page {stage.gateway}/     (while the demo runs)\n"
        f'an SDK:   OpenAI(base_url="{stage.gateway}/v1", api_key="any")\n'
    )


def _farewell() -> str:
    """What to type next, as this shell understands it: the command's path where it is not in PATH."""
    name = Path(sys.argv[0])
    command = str(name) if name.name == "decluster" and shutil.which("decluster") is None else "decluster"
    return f"""
Your own upstream:  {command} serve --upstream https://api.openai.com/v1
then in your code:  OpenAI(base_url="http://127.0.0.1:8080/v1")
"""


def _plain_lines(scenario: scenarios.Scenario, readings: Sequence[Reading]) -> None:
    next_s = 0.0
    for elapsed_s in _until_over(readings, _LOOK_S):
        if elapsed_s < next_s and not all(reading.over for reading in readings):
            continue
        next_s += _PROGRESS_S
        states = [
            f"{name} {reading.meter.tokens:6.0f} tokens {sum(reading.meter.clusters):3d} clusters"
            for name, reading in zip(demo_view.NAMES, readings, strict=True)
        ]
        print(f"{elapsed_s:6.1f} s   {'   '.join(states)}", flush=True)


def _live(scenario: scenarios.Scenario, readings: Sequence[Reading]) -> None:
    unicode = _is_unicode()
    with Live(console=_console(), screen=True, auto_refresh=False) as live:
        for elapsed_s in _until_over(readings, 1 / _FRAMES_S):
            title = f"{elapsed_s:4.1f} s  {scenario.name}: {scenario.about}"
            live.update(demo_view.screen(title, readings, int(elapsed_s / BIN_S), unicode), refresh=True)
        time.sleep(_LAST_PICTURE_S)


def _until_over(readings: Sequence[Reading], every_s: float) -> Iterator[float]:
    """Seconds since the start, at regular times until both streams have ended, and once after that."""
    started = time.monotonic()
    while True:
        for reading in readings:
            reading.advance()
        yield time.monotonic() - started
        if all(reading.over for reading in readings):
            return
        time.sleep(every_s)


def _console() -> Console:
    return Console(highlight=False, soft_wrap=False)


def _show(raw: Reading, smooth: Reading, plain: bool) -> None:
    width = shutil.get_terminal_size().columns
    if plain or not _is_screen():
        print("\n" + "\n".join(demo_view.timelines(raw, smooth, min(width, 100), _is_unicode())))
        print("\n" + demo_view.plain_table(demo_view.figures(raw, smooth)))
    else:
        _console().print(demo_view.summary(raw, smooth, width, _is_unicode()))
    print(_farewell(), end="", flush=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo as Ctrl-C does, so that nothing it started stays behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
