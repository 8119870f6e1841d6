"""The report as one HTML file: the table, and the curves of one stream of each target."""

from __future__ import annotations

from html import escape
from typing import Final

from gateway.bench.plan import Plan
from gateway.bench.report import rows, told
from gateway.bench.run import Run
from gateway.bench.summary import summary
from gateway.pictures import Curve, document, svg
from gateway.pictures.document import key, table

_LEGEND: Final = (
    '<p class="note">Tokens received against seconds since the request. A jump is a burst, with a dot where it held 24 tokens or more in '
    "50 ms; a level line is a freeze.</p>"
)


def page(plan: Plan, run: Run) -> str:
    samples = run.samples
    names = [target.name for target in plan.targets]
    summaries = {name: summary(samples[name]) for name in names}
    head = ("", *(key(index, name) for index, name in enumerate(names)))
    figures = [(what, *cells) for what, cells in rows([summaries[name] for name in names])]
    firsts = [next((sample for sample in samples[name] if sample.curve), None) for name in names]
    curves = [
        Curve(name, [(at, tokens) for at, tokens, _ in sample.curve] if sample else []) for name, sample in zip(names, firsts, strict=True)
    ]
    return document(
        f"decluster bench: {plan.model}",
        f"<h1>{escape(plan.model)}</h1>",
        f"<p>{escape(' '.join(told(plan, run, summaries)))}.</p>",
        table(head, figures),
        "<h2>One stream of each, as it arrived</h2>",
        _LEGEND,
        svg(curves),
    )
