"""Codex, the command line (`codex exec`): Responses, by a provider of one's own and by the built-in one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from .checks import ALIKE, Check, same
from .servers import Done, Site, run

PACKAGE: Final = "@openai/codex"
CUT_SHORT: Final = ("no-finish", "dies-half-way")
IDLE_MS: Final = 2000
INSIDE: Final = {"CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "editor"}  # how programs that have Codex inside put their name into its User-Agent
# 4 s of silence before any content, or in the middle of the answer.
SILENT: Final = {"silent": 5, "pauses": 5}

CUSTOM: Final = """
model = "{model}"
model_provider = "gateway"
[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "GATEWAY_KEY"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = {idle_ms}
http_headers = {{ "x-simulate-speed" = "{speed}", "x-request-id" = "{name}" }}
"""
BUILT_IN: Final = """
model = "{model}"
openai_base_url = "{url}/v1"
"""


def version(program: Path, folder: Path) -> str:
    return run([str(program), "--version"], folder, {}).out.split()[-1]


def ask(
    program: Path,
    site: Site,
    url: str,
    model: str,
    *,
    config: str = CUSTOM,
    speed: float = 20,
    idle_ms: int = 300_000,
    name: str = "",
    environ: Mapping[str, str] | None = None,
    leave: Callable[[], object] | None = None,
) -> Done:
    home, work = site.folder(), site.folder()
    (home / "config.toml").write_text(config.format(model=model, url=url, speed=speed, idle_ms=idle_ms, name=name), encoding="utf-8")
    # A tool call of the embedded upstream echoes words: no sandbox is needed, and in a container none can be had.
    argv = [str(program), "exec", "--json", "--skip-git-repo-check", "-C", str(work), "-s", "danger-full-access", "Do it."]
    keys = {"GATEWAY_KEY": "sk-test", "CODEX_API_KEY": "sk-test"}
    return run(argv, home, {"CODEX_HOME": str(home), **keys, **(environ or {})}, leave)


def outcome(done: Done) -> dict[str, Any]:
    """What it said, did and failed with; without ids, addresses and what grows with the prompt."""
    said: list[Any] = []
    usage = None
    for event in done.lines():
        if event["type"] == "item.completed":
            said.append({key: value for key, value in event["item"].items() if key != "id"})
        elif event["type"] == "turn.completed":
            usage = [event["usage"][name] for name in ("output_tokens", "reasoning_output_tokens")]
        elif event["type"] == "turn.failed":
            said.append({"failed": re.sub(r"req_\w+|https?://[^/]+", "", event["error"]["message"])})
    return {"code": done.code, "said": said, "usage": usage}


def checks(program: Path, site: Site) -> Iterator[Check]:
    ask_ = partial(ask, program, site)
    for model in ALIKE:
        yield Check(f"{model}: as a direct call", lambda model=model: same(*(outcome(ask_(url, model)) for url in site.both())))
    yield Check("tool-call: the command was run, its result answered", lambda: _called(outcome(ask_(site.gateway, "tool-call"))))
    for model in CUT_SHORT:
        yield Check(f"{model}: an error that names the cause", lambda model=model: _failed(outcome(ask_(site.gateway, model))))
    yield Check("built-in provider: its WebSocket is refused, POST follows at once", lambda: _falls_back(ask_, site))
    yield Check("interrupted: cancelled at the upstream", lambda: _leaves(ask_, site))
    for model, speed in SILENT.items():
        for style, url in {"none": site.direct, **site.beating}.items():
            lives = style in ("native", "auto")
            yield Check(
                f"{model}, heartbeat {style}: {'waits' if lives else 'gives up'}",
                lambda url=url, model=model, speed=speed, lives=lives: _waits(ask_(url, model, speed=speed, idle_ms=IDLE_MS), lives),
            )
    yield Check(
        "silent, as part of an editor, heartbeat auto: waits",
        lambda: _waits(ask_(site.beating["auto"], "silent", speed=5, idle_ms=IDLE_MS, environ=INSIDE), True),
    )


def _called(got: dict[str, Any]) -> None:
    [command] = [item for item in got["said"] if item["type"] == "command_execution"]
    assert command["exit_code"] == 0
    assert command["aggregated_output"].split()
    assert got["said"][-1]["type"] == "agent_message"


def _failed(got: dict[str, Any]) -> None:
    assert got["code"] == 1
    assert "cut short" in got["said"][-1]["failed"]


def _waits(done: Done, lives: bool) -> None:
    assert done.code == (0 if lives else 1), done.out[-500:]
    assert lives or "idle timeout" in done.out


def _falls_back(ask_: Callable[..., Done], site: Site) -> None:
    before = len(_lines(site))
    done = ask_(site.gateway, "instant", config=BUILT_IN)
    assert done.code == 0, done.err[-500:]
    statuses = [line["status"] for line in _lines(site)[before:]]
    assert statuses == [426, 200], statuses


def _lines(site: Site) -> list[Any]:
    """Requests in the gateway's log."""
    lines = map(json.loads, site.log.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["message"] == "request"]


def _leaves(ask_: Callable[..., Done], site: Site) -> None:
    ask_(site.gateway, "steady", speed=1, name="codex-left", leave=lambda: site.seen.begun("codex-left"))
    assert site.seen.ended("codex-left")["outcome"] == "cancelled"
