"""What `decluster bench` does with its arguments: targets made, the run shown, the report written."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.bench.page import page
from gateway.bench.plan import DEFAULT_PROMPT, PROMPTS_BYTES, Plan, PlanError, Target, check, fields_of, prompts_of, shown, url_of
from gateway.bench.report import as_json, hints, table, told
from gateway.bench.run import Run, run
from gateway.bench.summary import summary
from gateway.companion import GATEWAY, Companion, CompanionError
from gateway.upstream.tls import TrustError

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1  # not one stream was whole, or the gateway did not start
EXIT_USAGE: Final = 2


@dataclass(frozen=True, slots=True)
class Options:
    """As the command line gives them; see `decluster bench --help`. key: goes to both targets as a bearer token."""

    target: str
    against: str | None = None
    api: str = "chat"
    model: str = "smooth-then-clusters"
    requests: int = 1000
    concurrency: int = 50
    prompts: Path | None = None
    most_tokens: int | None = None
    patience_s: float = 300.0
    deadline_s: float = 3600.0
    fields: tuple[tuple[str, str], ...] = ()
    key: str | None = None
    json: bool = False
    html: Path | None = None
    sure: bool = False


def bench(options: Options, command: Sequence[str] = GATEWAY) -> int:
    """Runs it and returns the exit code. `command`: what starts the gateway where no `against` is given."""
    try:
        plan = _plan(options, prompts_of(_read(options.prompts), str(options.prompts)) if options.prompts else (DEFAULT_PROMPT,))
        check(plan, sure=options.sure)
        if options.html is not None:  # an hour's figures are not to be lost for want of a folder
            options.html.open("ab").close()
    except PlanError as error:
        return _failed(str(error), EXIT_USAGE)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}", EXIT_USAGE)
    with ExitStack() as stack:
        if options.against is None:
            try:
                beside = stack.enter_context(Companion(options.target, command))
            except CompanionError as error:
                return _failed(str(error), EXIT_FAILURE)
            through = Target("gateway", url_of(beside.url, options.api))
            plan = replace(plan, targets=(*plan.targets, through))
        print(f"bench: {shown(plan.targets)}", file=sys.stderr)
        try:
            run = asyncio.run(_shown_run(plan))
        except TrustError as error:
            return _failed(str(error), EXIT_USAGE)
    return _report(options, plan, run)


def _report(options: Options, plan: Plan, run: Run) -> int:
    summaries = {name: summary(found) for name, found in run.samples.items()}
    code = EXIT_OK if all(each.success for each in summaries.values()) else EXIT_FAILURE
    if options.html is not None:
        try:
            options.html.write_text(page(plan, run), encoding="utf-8", errors="replace")
        except OSError as error:
            code = _failed(f"{options.html}: {error.strerror}", EXIT_FAILURE)
    if options.json:
        print(as_json(plan, run))
    else:
        lines = ["", table(list(summaries), list(summaries.values())), "", *told(plan, run, summaries)]
        found = hints(plan, summaries)
        print("\n".join([*lines, "", *found] if found else lines))
    return code


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(PROMPTS_BYTES + 1)


def _plan(options: Options, prompts: tuple[str, ...]) -> Plan:
    """With `against`, two targets are compared as they are; without, the gateway is put in front of the one."""
    names = ("direct",) if options.against is None else ("target", "against")
    urls = [options.target] if options.against is None else [options.target, options.against]
    return Plan(
        targets=tuple(Target(name, url_of(url, options.api)) for name, url in zip(names, urls, strict=True)),
        api=options.api,
        model=options.model,
        prompts=prompts,
        requests=options.requests,
        concurrency=options.concurrency,
        most_tokens=options.most_tokens,
        patience_s=options.patience_s,
        deadline_s=options.deadline_s,
        fields=fields_of(options.key, options.api, options.fields),
    )


async def _shown_run(plan: Plan) -> Run:
    console = Console(stderr=True, quiet=not sys.stderr.isatty() or os.environ.get("TERM") == "dumb")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("requests", total=plan.requests * len(plan.targets))

        def step(done: int, of: int, failed: int) -> None:
            progress.update(task, completed=done, description=f"requests, {failed} failed" if failed else "requests")

        return await run(plan, step)


def _failed(why: str, code: int) -> int:
    print(f"decluster bench: error: {why.encode('utf-8', 'replace').decode()}", file=sys.stderr)
    return code
