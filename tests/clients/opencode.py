"""opencode (`opencode run`), by each of the three providers that it brings: chat, Responses, Messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from .checks import Check, same
from .servers import Done, Site, run

PACKAGE: Final = "opencode-ai"
PROVIDERS: Final = {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic"}
ALIKE: Final = ("smooth-then-clusters", "tool-call")
IDLE_MS: Final = 2000


def version(program: Path, folder: Path) -> str:
    return run([str(program), "--version"], folder, {}).out.split()[-1]


def ask(
    program: Path,
    site: Site,
    provider: str,
    url: str,
    model: str,
    *,
    speed: float = 20,
    name: str = "",
    options: dict[str, Any] | None = None,
    leave: Callable[[], object] | None = None,
) -> Done:
    home = site.folder()
    headers = {"x-simulate-speed": str(speed), "x-request-id": name}
    settings = {"baseURL": f"{url}/v1", "apiKey": "sk-test", "headers": headers, **(options or {})}
    made = {"npm": PROVIDERS[provider], "name": "gateway", "options": settings, "models": {model: {"name": model}}}
    config = {
        "share": "disabled",
        "autoupdate": False,
        "permission": {"*": "allow"},
        "provider": {"gateway": made},
        "model": f"gateway/{model}",
        "small_model": f"gateway/{model}",
    }
    (home / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
    environ = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
    return run([str(program), "run", "--format", "json", "Do it."], home, {**environ, "OPENCODE_DISABLE_MODELS_FETCH": "1"}, leave)


def outcome(done: Done) -> dict[str, Any]:
    said: list[Any] = []
    for event in done.lines():
        part = event.get("part", {})
        if event["type"] == "text":
            said.append(part["text"])
        elif event["type"] == "tool_use":
            said.append([part["tool"], part["state"]["status"], part["state"]["input"], part["state"].get("output")])
        elif event["type"] == "step_finish":
            said.append([part["reason"], part["tokens"]["output"], part["tokens"]["reasoning"]])
        elif event["type"] == "error":
            said.append(event["error"]["data"].get("message"))
    return {"code": done.code, "said": said}


def checks(program: Path, site: Site) -> Iterator[Check]:
    for provider in PROVIDERS:
        ask_ = partial(ask, program, site, provider)
        for model in ALIKE:
            yield Check(
                f"{provider}, {model}: as a direct call",
                lambda ask_=ask_, model=model: same(*(outcome(ask_(url, model)) for url in site.both())),
            )
        yield Check(f"{provider}, silent, heartbeat auto: waits", lambda ask_=ask_: _waits(ask_, site.beating["auto"]))
    yield Check("chat, interrupted: cancelled at the upstream", lambda: _leaves(partial(ask, program, site, "chat"), site))
    yield Check("chat, silent, heartbeat comment: waits", lambda: _waits(partial(ask, program, site, "chat"), site.beating["comment"]))
    # Direct it would ask again without end, so that is tried once, and by interrupting it.
    yield Check("chat, silent, no heartbeat: gives up", lambda: _gives_up(partial(ask, program, site, "chat"), site))


def _waits(ask_: Callable[..., Done], url: str) -> None:
    done = ask_(url, "silent", speed=5, options={"chunkTimeout": IDLE_MS})
    assert done.code == 0, done.err[-500:]
    assert isinstance(outcome(done)["said"][0], str)


def _gives_up(ask_: Callable[..., Done], site: Site) -> None:
    name = "opencode-silent"
    ask_(site.direct, "silent", speed=5, name=name, options={"chunkTimeout": IDLE_MS}, leave=lambda: site.seen.ended(name))
    assert site.seen.ended(name)["outcome"] == "cancelled"


def _leaves(ask_: Callable[..., Done], site: Site) -> None:
    name = "opencode-left"
    ask_(site.gateway, "steady", speed=1, name=name, leave=lambda: site.seen.begun(name))
    assert site.seen.ended(name)["outcome"] == "cancelled"
