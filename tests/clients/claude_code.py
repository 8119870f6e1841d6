"""Claude Code in print mode (`claude -p`): Messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from .checks import ALIKE, Check, same
from .servers import Done, Site, run

PACKAGE: Final = "@anthropic-ai/claude-code"
# Its idle clock cannot be set below 10 s.
IDLE: Final = {"CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "10000", "CLAUDE_STREAM_FIRST_BYTE_TIMEOUT_MS": "10000"}
SILENT: Final = "silent-13"
# No retries, no calls elsewhere.
QUIET: Final = {"CLAUDE_CODE_MAX_RETRIES": "0", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


def version(program: Path, folder: Path) -> str:
    return run([str(program), "--version"], folder, {}).out.split()[0]


def ask(
    program: Path,
    site: Site,
    url: str,
    model: str,
    *,
    speed: float = 20,
    name: str = "claude",
    settings: Mapping[str, str] | None = None,
    leave: Callable[[], object] | None = None,
) -> Done:
    home = site.folder()
    environ = {
        **QUIET,
        "CLAUDE_CONFIG_DIR": str(home),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_CUSTOM_HEADERS": f"x-simulate-speed: {speed}\nx-request-id: {name}",
        **(settings or {}),
    }
    asked = ["-p", "Do it.", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--allowedTools", "Bash"]
    return run([str(program), *asked], home, environ, leave)


def outcome(done: Done) -> dict[str, Any]:
    """Blocks in order, results of tools, how it ended; without ids and what grows with the prompt."""
    said: list[Any] = []
    ended: list[Any] = []
    for event in done.lines():
        if event["type"] in ("assistant", "user"):
            content = event["message"]["content"]
            said += [_lasting(block) for block in content] if isinstance(content, list) else [content]
        elif event["type"] == "result":
            ended = [
                event["subtype"],
                event["is_error"],
                _lasting(event.get("result")),
                event["usage"]["output_tokens"],
                event["num_turns"],
            ]
    return {"code": done.code, "said": said, "ended": ended}


def _lasting(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"(req|msg)_\w+|https?://[^/\s]+|127\.0\.0\.1:\d+", "", value)
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in ("id", "tool_use_id")}
    return value


def checks(program: Path, site: Site) -> Iterator[Check]:
    ask_ = partial(ask, program, site)
    for model in ALIKE:
        yield Check(f"{model}: as a direct call", lambda model=model: same(*(outcome(ask_(url, model)) for url in site.both())))
    yield Check("tool-call: the command was run, its result answered", lambda: _called(outcome(ask_(site.gateway, "tool-call"))))
    yield Check("large-deltas: the same text in more pieces", lambda: _smoother(ask_, site))
    yield Check("dies-half-way: fails as a direct call does", lambda: _fails(ask_, site))
    yield Check("no-finish: asked again without a stream, as a direct call", lambda: _asks_again(ask_, site))
    yield Check("interrupted: cancelled at the upstream", lambda: _leaves(ask_, site))
    for style, url in {"none": site.direct, **site.beating}.items():
        yield Check(
            f"{SILENT}, heartbeat {style}: {'gives up and asks again' if style == 'none' else 'waits'}",
            lambda style=style, url=url: _waits(ask_, site, style, url),
        )


def _called(got: dict[str, Any]) -> None:
    [call] = [block for block in got["said"] if block["type"] == "tool_use"]
    [result] = [block for block in got["said"] if block["type"] == "tool_result"]
    assert call["name"] == "Bash"
    assert not result.get("is_error")
    assert result["content"].split() == call["input"]["command"].removeprefix("echo ").split()
    assert got["ended"][:2] == ["success", False]


def _deltas(done: Done) -> int:
    return sum(event["type"] == "stream_event" and event["event"]["type"] == "content_block_delta" for event in done.lines())


def _smoother(ask_: Callable[..., Done], site: Site) -> None:
    direct, gateway = (_deltas(ask_(url, "large-deltas")) for url in site.both())
    assert gateway > 2 * direct, (direct, gateway)


def _fails(ask_: Callable[..., Done], site: Site) -> None:
    direct, gateway = (ask_(url, "dies-half-way") for url in site.both())
    assert (direct.code, gateway.code) == (1, 1)


def _asks_again(ask_: Callable[..., Done], site: Site) -> None:
    """It has no exception for a stream without an end: it takes it for a failed one and falls back."""
    direct, gateway = (outcome(ask_(url, "no-finish")) for url in site.both())
    assert direct["code"] == gateway["code"] == 0
    assert gateway["ended"] == direct["ended"]


def _leaves(ask_: Callable[..., Done], site: Site) -> None:
    ask_(site.gateway, "steady", speed=1, name="claude-left", leave=lambda: site.seen.begun("claude-left"))
    assert site.seen.ended("claude-left")["outcome"] == "cancelled"


def _waits(ask_: Callable[..., Done], site: Site, style: str, url: str) -> None:
    name = f"claude-{style}"
    done = ask_(url, SILENT, speed=1, settings=IDLE, name=name)
    assert done.code == 0, done.err[-500:]
    entry = site.seen.entry(name)
    assert entry is not None
    assert entry["stream"] is (style != "none")  # the last request: given up on, it asks without a stream
