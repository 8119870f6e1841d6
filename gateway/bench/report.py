"""The figures of a run as a table for people and as JSON for programs. Drawing only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from gateway.bench.plan import Plan
from gateway.bench.run import Run
from gateway.bench.summary import Summary, summary

_NONE: Final = "-"
_HINTS: Final = {
    "HTTP 401": "the key comes from {key} in the environment; is it set, and of this provider?",
    "HTTP 403": "the key in {key} may not use this model, or the provider refuses this address",
    "HTTP 404": "is the base URL right, and is there such a model (--model)?",
    "HTTP 429": "the provider's limit: take a lower -c",
    "HTTP 502": "the gateway did not reach its upstream, or got no stream from it: `decluster check` says more",
    "certificate": "it is not signed by anybody who is trusted here: SSL_CERT_FILE names a further authority",
    "no TLS": "what listens there speaks no TLS: http:// in place of https://?",
    "unknown name": "no such host; a proxy of the environment is not used for what is measured directly",
    "refused": "nothing listens there",
    "no connection": "a firewall? A proxy of the environment is not used for what is measured directly",
    "no stream": "it answered without an event stream: a login page, or a server that does not stream",
    "no HTTP": "what answers there is no HTTP/1.1 server",
    "too many files": "raise `ulimit -n`, or take a lower -c",
    "too large": "more came than a run keeps at once: take --max-tokens, or a lower -c",
    "timeout": "raise --patience, if streams of that length are meant",
}


def rows(summaries: Sequence[Summary]) -> list[tuple[str, list[str]]]:
    """What, and of each target how much."""
    each = [
        ("first token p50", [_ms(s.first_p50_s) for s in summaries]),
        ("first token p95", [_ms(s.first_p95_s) for s in summaries]),
        ("first token p99", [_ms(s.first_p99_s) for s in summaries]),
        ("gap between frames p50", [_ms(s.gap_p50_s) for s in summaries]),
        ("gap between frames p99", [_ms(s.gap_p99_s) for s in summaries]),
        ("longest freeze", [_ms(s.longest_freeze_s) for s in summaries]),
        ("clusters a stream", [_number(s.clusters, 2) for s in summaries]),
        ("largest burst in 50 ms", [_number(s.largest_burst_tokens, 0, " tokens") for s in summaries]),
        ("tokens/s a stream", [_number(s.rate, 1) for s in summaries]),
        ("total p99", [_ms(s.total_p99_s) for s in summaries]),
        ("success", [f"{100 * s.success:.1f} % of {s.requests}" if s.requests else _NONE for s in summaries]),
    ]
    wrong = [", ".join(f"{count} {what}" for what, count in s.outcomes.items() if what != "whole") or _NONE for s in summaries]
    if any(value != _NONE for value in wrong):
        each.append(("what went wrong", wrong))
    return each


def table(names: Sequence[str], summaries: Sequence[Summary]) -> str:
    lines = [("", list(names)), *rows(summaries)]
    first = max(len(name) for name, _ in lines)
    widths = [max(len(cells[column]) for _, cells in lines) for column in range(len(names))]
    return "\n".join(
        f"{name:<{first}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)) for name, cells in lines
    )


def told(plan: Plan, run: Run, summaries: Mapping[str, Summary]) -> list[str]:
    """What was measured and how, in sentences: a figure without them is none."""
    counted = min((s.counted for s in summaries.values()), default=0.0)
    tokens = (
        "tokens as the upstream counted them, spread over the text by its length"
        if counted == 1.0
        else "tokens estimated: about four bytes of Latin text, one CJK character"
    )
    asked = sorted({s.requests for s in summaries.values()})
    many = " and ".join(f"{count}" for count in asked)
    if run.ended:
        many += f" of {plan.requests}"
    model = plan.model if plan.model.isprintable() else repr(plan.model)
    once = min(plan.concurrency, plan.requests * len(plan.targets))
    return [
        f"{many} streamed {plan.api} requests of model {model} to each target, in turn, {once} at once;",
        "a connection each, the clock from the written request; a frame is what came in one read;",
        f"a cluster is 24 tokens or more in 50 ms; {tokens}",
        *([f"the run ended before its time: {run.ended}"] if run.ended else []),
    ]


def hints(plan: Plan, summaries: Mapping[str, Summary]) -> list[str]:
    """What to do about each way in which requests failed."""
    seen = dict.fromkeys(outcome for s in summaries.values() for outcome in s.outcomes)
    key = "ANTHROPIC_API_KEY" if plan.api == "messages" else "OPENAI_API_KEY"
    return [f"{outcome}: {_HINTS[outcome].format(key=key)}" for outcome in seen if outcome in _HINTS]


def as_json(plan: Plan, run: Run) -> str:
    summaries = {name: summary(found) for name, found in run.samples.items()}
    return json.dumps(
        {
            "measured": " ".join(told(plan, run, summaries)),
            "ended": run.ended or "whole",
            "api": plan.api,
            "model": plan.model,
            "requests": plan.requests,
            "concurrency": plan.concurrency,
            "targets": {target.name: {"url": target.url, **asdict(summaries[target.name])} for target in plan.targets},
        },
        indent=1,
    )


def _ms(seconds: float | None) -> str:
    return _NONE if seconds is None else f"{seconds * 1e3:,.1f} ms"


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return _NONE if value is None else f"{value:,.{digits}f}{unit}"
