"""Asks each server directly and through the gateway, compares, and prints the table: `python -m upstreams.compare FOLDER SERVER...`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sdks import processes
from sdks.answers import Outcome
from upstreams import servers
from upstreams.asking import Raw, ask, ask_raw
from upstreams.cases import PLAYED, Case, Row, rows
from upstreams.environments import Environment


@dataclass(frozen=True)
class Way:
    """The same model at two addresses, the second with the gateway in it. outermost: whether that is what the client speaks to."""

    name: str
    direct: str
    gateway: str
    rows: list[Row]
    outermost: bool = True


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    made = {name: Environment(folder / name) for name in names}
    wrong: list[str] = []
    print(f"{'way':<34}{'dialect':<13}as direct")
    with ExitStack() as stack:
        for way in _ways(folder, made, stack):
            for row in way.rows:
                wrong += _played(way, row)
    print(", ".join(_versions(made)))
    for line in wrong:
        print(line)
    return int(bool(wrong))


def _ways(folder: Path, made: Mapping[str, Environment], stack: ExitStack) -> Iterator[Way]:
    tiny = folder / "tiny"
    asked = rows(str(tiny))
    behind: dict[str, tuple[str, str]] = {}  # address of each server, and of the gateway before it
    starts = {
        "transformers": lambda log: servers.transformers(made["transformers"], tiny, log),
        "llama": lambda log: servers.llama(made["llama"], tiny / "tiny.gguf", log),
        "simulate": processes.simulator,
    }
    for name, start in starts.items():
        if name in made or name == "simulate":
            url = stack.enter_context(start(folder / f"{name}.log"))
            behind[name] = url, stack.enter_context(processes.gateway(url, folder / f"gateway-{name}.log"))
            yield Way(name, *behind[name], asked.get(name, []))
    if "litellm" in made:
        direct, front = ({name: urls[place] for name, urls in behind.items()} for place in (0, 1))
        proxy = stack.enter_context(servers.litellm(made["litellm"], _models(direct, str(tiny)), folder / "litellm.log"))
        through = stack.enter_context(processes.gateway(proxy, folder / "gateway-litellm.log"))
        possible = [row for row in asked["litellm"] if row.server in behind]
        yield Way("gateway, litellm", proxy, through, possible)
        around = stack.enter_context(servers.litellm(made["litellm"], _models(front, str(tiny)), folder / "litellm-around.log"))
        for name in behind:
            yield Way("litellm, gateway", proxy, around, [row for row in possible if row.server == name], outermost=False)


def _models(urls: Mapping[str, str], tiny: str) -> dict[str, dict[str, Any]]:
    """The provider hosted_vllm has its Messages translated to chat completions, openai to Responses, which llama.cpp's server has not."""
    out: dict[str, dict[str, Any]] = {}
    for name, model in (("transformers", tiny), ("llama", "tiny")):
        if name in urls:
            out[name] = {"model": f"hosted_vllm/{model}", "api_base": f"{urls[name]}/v1"}
    for name in PLAYED:
        out[name] = {"model": f"openai/{name}", "api_base": f"{urls['simulate']}/v1"}
        out[f"anthropic-{name}"] = {"model": f"anthropic/{name}", "api_base": urls["simulate"]}
    return out


def _played(way: Way, row: Row) -> list[str]:
    wrong: dict[str, list[str]] = {}
    with ThreadPoolExecutor(len(row.cases) if row.at_once else 1) as pool:
        outcomes = {case.name: pool.submit(_differences, way, row, case) for case in row.cases}
        for name, outcome in outcomes.items():
            if found := outcome.result():
                wrong[name] = found
    whole = way.name if row.server == way.name else f"{way.name}, {row.server}"
    right = len(row.cases) - len(wrong)
    print(f"{whole:<34}{row.dialect:<13}{right} of {len(row.cases)}", flush=True)
    return [f"{whole}, {row.dialect}, {name}: {line}" for name, lines in wrong.items() for line in lines]


def _differences(way: Way, row: Row, case: Case) -> list[str]:
    """What is not as in the direct call."""
    if case.stop:
        said = ask(row.dialect, way.direct, case.params).text
        case = replace(case, params={**case.params, "stop": _word(said)})
    urls = (way.direct, way.gateway)
    streams = case.params["stream"] and not case.refused and not case.empty
    with ThreadPoolExecutor(2 if row.at_once else 1) as pool:
        direct, through = pool.map(lambda url: ask(row.dialect, url, case.params), urls)
        raws = [*pool.map(lambda url: ask_raw(row.dialect, url, case.params), urls)] if streams else []
    found = [*_unmeant(case, direct)]
    if case.empty:
        told = (through.error or {}).get("body", {}).get("code")
        return found if told == "upstream_empty" else [*found, f"told as {told}"]
    return [*found, *_unequal(direct, through), *(_unequal_raw(*raws, outermost=way.outermost) if raws else ())]


def _unmeant(case: Case, direct: Outcome) -> Iterator[str]:
    """Where the direct call is not what the case is about."""
    if (direct.error is not None) != case.refused:
        yield f"the direct call's error is {direct.error}"
    if bool(direct.text) == (case.empty or case.refused):
        yield f"the direct call says {direct.text!r}"
    if case.finish not in repr(direct.answer):
        yield f"the direct call does not end with {case.finish}"


def _unequal(direct: Outcome, through: Outcome) -> Iterator[str]:
    for outcome in (direct, through):
        _once(outcome)
    for name in ("text", "error", "answer"):
        one, other = getattr(direct, name), getattr(through, name)
        if one != other:
            yield f"{name} differs:\n    direct  {_short(one)}\n    gateway {_short(other)}"


def _once(outcome: Outcome) -> None:
    """llama-cpp-python repeats a call's id and name with each delta; through the gateway they come once."""
    if isinstance(outcome.answer, tuple):
        for choice in outcome.answer[0].values():
            for call in choice.calls.values():
                call["ids"], call["names"] = bool(call["ids"]), sorted(set(call["names"]))


def _unequal_raw(direct: Raw, through: Raw, outermost: bool) -> Iterator[str]:
    lost, added = direct.fields - through.fields, through.fields - direct.fields
    lost = {(path, kind) for path, kind in lost if kind != "NoneType"}  # what a mended event leaves out
    if lost or added:
        yield f"fields lost: {sorted(lost)}, added: {sorted(added)}"
    if through.rest:
        yield f"bytes behind the last blank line: {through.rest[:80]!r}"
    if direct.closings not in ((), through.closings):
        yield f"ends with {through.closings}, directly with {direct.closings}"
    if outermost and (len(through.closings) != 1 or through.after):
        yield f"ends with {through.closings} then {through.after}"


def _word(text: str) -> str:
    """A word from the middle of what was said, not before."""
    words = text.split()
    return next(word for word in words[len(words) // 2 :] if word.isalpha() and len(word) > 3 and text.index(word) > len(text) // 3)


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) < 1500 else f"{said[:700]} ... {said[-700:]}"


def _versions(made: Mapping[str, Environment]) -> Iterator[str]:
    packages = {"transformers": ("transformers", "torch"), "llama": ("llama-cpp-python",), "litellm": ("litellm",)}
    for name, environment in made.items():
        for package in packages[name]:
            yield f"{package} {environment.version(package)}"


if __name__ == "__main__":
    sys.exit(main())
