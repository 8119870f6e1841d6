"""What `decluster trace show`, `replay` and `import` do with their arguments."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Final

from gateway.pacing.figures import Figures
from gateway.pictures import Curve, document, svg, terminal
from gateway.pictures.document import key
from gateway.settings import Pacing
from gateway.traces.format import Burst, Trace, TraceError, line_of, load
from gateway.traces.importing import from_curl, from_har
from gateway.traces.replaying import by_lag, enough, replay, steps_of, with_lag
from gateway.wire.handed import text_of

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
IMPORT_BYTES: Final = 256 * 2**20  # a dump is five times what came
_SHOWN_AT_MOST: Final = 50  # traces of one file in a picture
_TOLD: Final = ("first_added_ms", "late", "clusters", "peak_tokens", "burst_ratio", "stall_ms", "avoidable_stall_ms")
_TOLD_LAGS: Final = ("lag_p50_ms", "lag_p95_ms", "end_lag_ms")


def show(file: Path, name: str | None, html: Path | None, png: Path | None) -> int:
    """The curves of a file's traces, in the terminal or as a file."""
    try:
        traces = _chosen(load(file), name)
    except TraceError as error:
        return _failed("show", str(error), EXIT_USAGE)
    return _draw("show", [(trace, _curves(trace)) for trace in traces[:_SHOWN_AT_MOST]], html, png)


def replayed(file: Path, name: str | None, settings: Pacing, which_lag: bool, html: Path | None, png: Path | None) -> int:
    """The traces through the pacer with these settings, offline; `which_lag`: and with other
    lags, up to the one that would have been enough."""
    pictures = []
    try:
        for trace in _chosen(load(file), name)[:_SHOWN_AT_MOST]:
            played = replay(trace, settings)
            print(f"{trace.name}: {trace.about}" if trace.about else trace.name)
            print(_table(played.figures))
            if which_lag:
                for line in _by_lag(trace, settings):
                    print(line)
            print()
            pictures.append((trace, [_curve("arrived", played.arrived), _curve("delivered", played.delivered)]))
    except TraceError as error:
        return _failed("replay", str(error), EXIT_USAGE)
    return _draw("replay", pictures, html, png) if html or png else EXIT_OK


def imported(file: Path, out: Path | None) -> int:
    """Timings of a HAR file or of curl's output as traces."""
    try:
        with file.open("rb") as opened:
            data = opened.read(IMPORT_BYTES + 1)
        if len(data) > IMPORT_BYTES:
            return _failed("import", f"{file}: is larger than {IMPORT_BYTES // 2**20} MiB", EXIT_USAGE)
        text = text_of(data, strict=False)
        traces = (from_har if text.lstrip().startswith("{") else from_curl)(text, file.stem)
    except OSError as error:
        return _failed("import", f"{file}: {error.strerror}", EXIT_USAGE)
    except TraceError as error:
        return _failed("import", str(error), EXIT_USAGE)
    lines = "".join(line_of(trace) + "\n" for trace in traces)
    if out is None:
        sys.stdout.write(lines)
        return EXIT_OK
    try:
        out.write_text(lines, encoding="utf-8")
    except OSError as error:
        return _failed("import", f"{out}: {error.strerror}", EXIT_FAILURE)
    print(f"{len(traces)} traces, {sum(trace.tokens for trace in traces)} tokens: decluster trace show {out}", file=sys.stderr)
    return EXIT_OK


def settings_of(lags: Sequence[tuple[str, float]], others: Sequence[tuple[str, float]]) -> Pacing:
    """The default promise with the lags (by kind, in seconds) and the other settings (switch, end, frame, ...) that were given."""
    settings = Pacing()
    for kind, lag_s in lags:
        settings = with_lag(settings, kind, lag_s)
    return replace(settings, **dict(others))  # type: ignore[arg-type]


def _chosen(traces: list[Trace], name: str | None) -> list[Trace]:
    chosen = [trace for trace in traces if name is None or trace.name == name]
    if len(chosen) > _SHOWN_AT_MOST:
        print(f"decluster trace: the first {_SHOWN_AT_MOST} of {len(chosen)} traces; --only NAME takes another", file=sys.stderr)
    if not chosen:
        raise TraceError(f"no trace is called {name}; there are {', '.join(sorted({trace.name for trace in traces})[:20])}")
    return chosen


def _curves(trace: Trace) -> list[Curve]:
    curves = [_of_bursts("arrived", trace.bursts)]
    return [*curves, _of_bursts("delivered", trace.delivered)] if trace.delivered else curves


def _of_bursts(name: str, bursts: Sequence[Burst]) -> Curve:
    return _curve(name, steps_of(bursts))


def _curve(name: str, steps: Sequence[tuple[float, float, object]]) -> Curve:
    return Curve(name, [(at, tokens) for at, tokens, _ in steps])


def _draw(command: str, pictures: Sequence[tuple[Trace, list[Curve]]], html: Path | None, png: Path | None) -> int:
    try:
        if html is not None:
            html.write_text(_page(pictures), encoding="utf-8")
        if png is not None:
            from gateway.pictures.png import png as draw

            draw(pictures[0][1], png)
    except ImportError:
        return _failed(command, "--png needs Pillow: pip install 'decluster[png]'", EXIT_FAILURE)
    except OSError as error:
        return _failed(command, f"{html or png}: {error.strerror}", EXIT_FAILURE)
    if html is None and png is None:
        unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" and os.environ.get("TERM") != "dumb"
        for trace, curves in pictures:
            print(f"{trace.name}  {trace.about}".rstrip() + (f"  (ended: {trace.end})" if trace.end != "whole" else ""))
            print(terminal(curves, min(shutil.get_terminal_size().columns, 120), unicode) + "\n")
    return EXIT_OK


def _page(pictures: Sequence[tuple[Trace, list[Curve]]]) -> str:
    parts = []
    for trace, curves in pictures:
        parts.append(f"<h2>{escape(trace.name)}</h2><p>{escape(trace.about)}</p>")
        parts.append("<p>" + " &nbsp; ".join(key(index, curve.name) for index, curve in enumerate(curves)) + "</p>" + svg(curves))
    return document("decluster trace", "<h1>Streams as they came</h1>", *parts)


def _table(figures: Figures) -> str:
    return "\n".join(
        f"  {name.removesuffix('_ms').replace('_', ' '):<18}{getattr(figures, name):>10.1f}{' ms' if name.endswith('_ms') else ''}"
        for name in _TOLD + _TOLD_LAGS
    )


def _by_lag(trace: Trace, settings: Pacing) -> list[str]:
    """What each lag would have done, and from which on waiting longer gains nothing."""
    found = by_lag(trace, settings)
    lines = [f"  {'max_lag':>8}  {'clusters':>8}  {'largest':>8}  {'stall':>9}  {'lag p50':>9}"]
    lines += [
        f"  {lag_s:>6g} s  {f.clusters:>8}  {f.peak_tokens:>8.0f}  {f.stall_ms:>6.0f} ms  {f.lag_p50_ms:>6.0f} ms" for lag_s, f in found
    ]
    return [*lines, f"  {enough(found):g} s would have been enough: a longer lag gains nothing"]


def _failed(command: str, why: str, code: int) -> int:
    print(f"decluster trace {command}: error: {why.encode('utf-8', 'replace').decode()}", file=sys.stderr)
    return code
