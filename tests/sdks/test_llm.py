"""The `llm` tool, by its library and by its command: a chain of answers, its tool called and answered, is that of a direct call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import openai
import pytest
from llm.default_plugins.openai_models import Chat, Responses

from .answers import Outcome
from .cases import CHAT, CUT_SHORT, HEADERS, SLOW, Params
from .places import Headers, Pairs, Places, play
from .promises import Promises
from .seen import Seen

COMMAND_S: Final = 60.0  # a safety net: it takes one


def asked(model: str, prompt: str = "Write the file.") -> Params:
    return {"model": model, "prompt": prompt}


CASES: Final[dict[str, Params]] = {
    "deltas of a hundred tokens": asked("large-deltas"),
    "a tool called and its result answered": asked("tool-call"),
    "the token limit": asked("out-of-tokens"),
    "the whole answer in one write": asked("instant"),
    "every kind of character": asked("echo", CHAT["every kind of character"]["messages"][0]["content"]),
}


def write_file(path: str, content: str) -> str:
    """Writes a file."""
    return f"{path}: {len(content)} characters"


class Closing:
    """A model whose clients can be closed: the library leaves that to the end of its process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.clients: list[openai.OpenAI] = []

    def get_client(self, *args: Any, **kwargs: Any) -> openai.OpenAI:
        self.clients.append(super().get_client(*args, **kwargs))  # type: ignore[misc]
        return self.clients[-1]


class ClosingChat(Closing, Chat):
    pass


class ClosingResponses(Closing, Responses):
    pass


def stream(made: type[ClosingChat] | type[ClosingResponses], url: str, params: Params, headers: Headers) -> Outcome:
    model = made("sim", model_name=params["model"], api_base=f"{url}/v1", headers=dict(headers), supports_tools=True)
    model.key = "sk-test"
    try:
        return _stream(model.chain(params["prompt"], tools=[write_file]))
    finally:
        for client in model.clients:
            client.close()


def _stream(chain: Any) -> Outcome:
    pieces: list[str] = []
    error = None
    try:
        pieces += iter(chain)
    except openai.APIError as raised:
        error = {"kind": type(raised).__name__, "message": str(raised), "code": raised.code}
    answers = [
        (response.text_or_raise(), response.usage(), [(call.name, call.arguments) for call in response.tool_calls()])
        for response in (chain._responses if error is None else ())
    ]
    return Outcome(answers, "".join(pieces), error, len(pieces))


class LlmPromises(Promises):
    made: ClassVar[type[ClosingChat] | type[ClosingResponses]]
    cases = CASES
    asked = staticmethod(asked)

    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play(places, cls.everything(), partial(stream, cls.made))


class TestChat(LlmPromises):
    made = ClosingChat
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "APIError", "code": "upstream_reset"},
        "no-finish": {"kind": "APIError", "code": "upstream_incomplete"},
    }


class TestResponses(LlmPromises):
    made = ClosingResponses

    def test_an_error_in_the_stream_is_told_as_by_a_direct_call_after_the_same_text(self, played: Pairs) -> None:
        """Which is not at all: it passes over `response.failed`, whoever sends it."""
        pair = played["error-in-stream"]
        assert pair.gateway == pair.direct

    @pytest.mark.parametrize("model", CUT_SHORT)
    def test_a_stream_that_is_cut_short_raises_after_all_text_that_came(self, played: Pairs, model: str) -> None:
        """It does not raise, for the same reason. The text is there."""
        pair = played[model]
        assert pair.direct.text
        assert pair.gateway.text.startswith(pair.direct.text)


class Command:
    """`llm -m sim` as a person types it, with the model described in its own file."""

    def __init__(self, url: str, folder: Path, model: str, headers: Headers = HEADERS) -> None:
        folder.mkdir()
        lines = ["- model_id: sim", f"  model_name: {model}", f"  api_base: {url}/v1", "  headers:"]
        lines += [f"    {name}: '{value}'" for name, value in headers.items()]
        (folder / "extra-openai-models.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llm", "-m", "sim", "--no-log", "Write the file."],
            env={**os.environ, "LLM_USER_PATH": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def ended(self) -> tuple[int, str, str]:
        """Its exit code, and what it printed."""
        with self.process:
            try:
                out, err = self.process.communicate(timeout=COMMAND_S)
            finally:
                self.process.kill()
        return self.process.returncode, out, err


@pytest.mark.parametrize(("model", "code"), [("large-deltas", 0), ("rate-limited", 1)])
def test_the_command_prints_what_it_prints_without_the_gateway(places: Places, tmp_path: Path, model: str, code: int) -> None:
    both = [Command(url, tmp_path / place, model) for place, url in (("direct", places.direct), ("gateway", places.gateway))]
    direct, gateway = (command.ended() for command in both)
    assert gateway == direct
    assert direct[0] == code
    assert direct[1] or direct[2]


def test_the_command_fails_where_the_upstream_breaks(places: Places, tmp_path: Path) -> None:
    code, out, err = Command(places.gateway, tmp_path / "gateway", "no-finish").ended()
    assert out
    assert code == 1
    assert "cut short" in err


def test_a_command_that_is_interrupted_is_cancelled_at_the_upstream(places: Places, seen: Seen, tmp_path: Path) -> None:
    command = Command(places.gateway, tmp_path / "gateway", SLOW, {"x-request-id": "llm-left"})
    try:
        assert seen.begun("llm-left")
        command.process.send_signal(signal.SIGINT)
        assert seen.ended("llm-left")["outcome"] == "cancelled"
    finally:
        command.ended()
