"""`reasoning_format` on chat completions: from every form that servers use to every form that clients ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.dialects.reforms import FORMATS, Format, Wish
from gateway.errors import Failure
from gateway.piece import Kind
from gateway.wire.sse import Event
from reasoning.playing import Played, ending, play
from support.chunks import USAGE, call, chunk

PLAN, MORE, ANSWER = "I plan\n", "some more", "The answer"


def field(name: str) -> list[str]:
    return ending(chunk(**{name: PLAN}), chunk(**{name: MORE}), chunk(ANSWER))


def details(kind: str, name: str) -> list[str]:
    return ending(*(chunk(reasoning_details=[{"type": kind, name: text, "index": 0}]) for text in (PLAN, MORE)), chunk(ANSWER))


def parts() -> list[str]:
    thinking = [chunk([{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]) for text in (PLAN, MORE)]  # type: ignore[arg-type]
    return ending(*thinking, chunk([{"type": "text", "text": ANSWER}]))  # type: ignore[arg-type]


SOURCES: dict[str, list[str]] = {
    "reasoning_content": field("reasoning_content"),
    "reasoning": field("reasoning"),
    "thinking": field("thinking"),
    "both": ending(chunk(reasoning=PLAN, reasoning_content=PLAN), chunk(reasoning=MORE, reasoning_content=MORE), chunk(ANSWER)),
    "one delta": ending(chunk(ANSWER, reasoning_content=PLAN + MORE)),
    "details": details("reasoning.text", "text"),
    "summaries": details("reasoning.summary", "summary"),
    "field and details": ending(
        *(chunk(reasoning=text, reasoning_details=[{"type": "reasoning.text", "text": text}]) for text in (PLAN, MORE)), chunk(ANSWER)
    ),
    "parts": parts(),
    "reasoning parts": ending(chunk([{"type": "reasoning", "reasoning": PLAN + MORE}, {"type": "text", "text": ANSWER}])),  # type: ignore[arg-type]
    "think tags": ending(*map(chunk, ("<th", "ink>" + PLAN, MORE + "</thi", "nk>The", " answer"))),
    "reasoning tags": ending(chunk("<reasoning>" + PLAN + MORE + "</reasoning>" + ANSWER)),
}


def own_text(played: Played) -> str:
    return played.joined("content")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("cut", [None, 1.0])
class TestEverySource:
    def test_becomes_reasoning_content(self, source: str, cut: float | None) -> None:
        played = play(SOURCES[source], Wish("reasoning_content"), cut=cut)
        assert played.order("reasoning_content", "content") == [("reasoning_content", PLAN + MORE), ("content", ANSWER)]
        assert not played.joined("reasoning")

    def test_becomes_reasoning(self, source: str, cut: float | None) -> None:
        played = play(SOURCES[source], Wish("reasoning"), cut=cut)
        assert played.order("reasoning", "content") == [("reasoning", PLAN + MORE), ("content", ANSWER)]
        assert not played.joined("reasoning_content")

    def test_becomes_think_tags(self, source: str, cut: float | None) -> None:
        played = play(SOURCES[source], Wish("think_tags"), cut=cut)
        assert own_text(played) == f"<think>{PLAN}{MORE}</think>{ANSWER}"
        assert not any(played.joined(name) for name in ("reasoning", "reasoning_content", "thinking"))

    def test_becomes_tagged_deltas(self, source: str, cut: float | None) -> None:
        played = play(SOURCES[source], Wish("tagged"), cut=cut)
        tagged = [delta for delta in played.deltas if "reasoning_tag" in delta]
        tags = [delta["reasoning_tag"] for delta in tagged]
        assert tags == ["think_open", *["think_chunk"] * (len(tags) - 2), "think_close"]
        assert "".join(delta.get("reasoning_content", "") for delta in tagged) == PLAN + MORE
        assert "".join(delta.get("content") or "" for delta in played.deltas if "reasoning_tag" not in delta) == ANSWER

    def test_can_be_hidden(self, source: str, cut: float | None) -> None:
        played = play(SOURCES[source], Wish("hidden"), cut=cut)
        assert own_text(played) == ANSWER
        assert b"plan" not in played.out
        assert b"more" not in played.out
        assert played.dialect.withheld == pytest.approx(len(PLAN + MORE) / 4, abs=0.6)

    def test_stays_as_it_is_to_the_byte(self, source: str, cut: float | None) -> None:
        played = play(SOURCES[source])
        assert played.out.split(b"\n\n")[1:-3] == [b"data: " + data.encode() for data in SOURCES[source][:-1]]

    def test_is_paced_as_reasoning_in_every_form(self, source: str, cut: float | None) -> None:
        for wish in (Wish(), *map(Wish, ("reasoning_content", "reasoning", "think_tags", "tagged"))):
            kinds = play(SOURCES[source], wish).reasoning_kinds
            assert kinds[-1] is Kind.CONTENT
            if len(SOURCES[source]) > 2 or wish.changes:
                assert kinds[0] is (Kind.CONTENT if not wish.changes and source == "think tags" else Kind.REASONING)


def test_the_answers_own_reasoning_tag_survives_cuts_with_one_opening() -> None:
    played = play(ending(chunk(reasoning_content="a long thought that is cut into many stretches of text")), Wish("tagged"), cut=2.0)
    assert [delta["reasoning_tag"] for delta in played.deltas if "reasoning_tag" in delta].count("think_open") == 1
    assert len(played.deltas) > 5


SIGNED = [{"type": "reasoning.encrypted", "data": "gAAAA+/=é", "id": "rs_1", "index": 0}]


@pytest.mark.parametrize("format", [each for each in FORMATS["chat"] if each != "hidden"])
def test_signatures_and_encrypted_parts_keep_their_bytes(format: Format) -> None:
    sent = ending(
        chunk(reasoning="a", reasoning_details=[{"type": "reasoning.text", "text": "a", "signature": "c2lnL+="}]),
        chunk("", reasoning_details=SIGNED, reasoning_opaque="QUJD/+=="),
        chunk([{"type": "thinking", "thinking": "b", "signature": "b3RoZXI="}]),  # type: ignore[arg-type]
        chunk("done"),
    )
    out = play(sent, Wish(format)).out.decode()
    assert out.count(json.dumps(SIGNED, ensure_ascii=False, separators=(",", ":"))) == 1
    for opaque in ("c2lnL+=", "QUJD/+==", "b3RoZXI="):
        assert out.count(opaque) == 1


def test_parts_of_other_kinds_stay_parts_and_signed_ones_stand_beside_the_text() -> None:
    image, signed = {"type": "image_url", "image_url": "x"}, {"type": "thinking", "thinking": "b", "signature": "s"}
    sent = ending(chunk([image, signed, {"type": "text", "text": "c"}]), chunk([{"type": "thinking", "thinking": "", "closed": True}]))  # type: ignore[arg-type]
    played = play(sent, Wish("reasoning_content"))
    assert played.order("reasoning_content", "content") == [("reasoning_content", "b"), ("content", "c")]
    assert [delta["content"] for delta in played.deltas if isinstance(delta.get("content"), list)] == [[image]]
    assert [delta["thinking_blocks"] for delta in played.deltas if "thinking_blocks" in delta] == [[signed]]


def test_hidden_withholds_details_and_signatures_too() -> None:
    sent = ending(
        chunk("", reasoning_details=SIGNED, reasoning_opaque="x"), chunk(reasoning="a", thinking_blocks=[{"thinking": "a"}]), chunk("done")
    )
    played = play(sent, Wish("hidden"))
    assert b"reasoning" not in played.out
    assert b"thinking" not in played.out
    assert own_text(played) == "done"


def test_hidden_keeps_usage_calls_and_unknown_members() -> None:
    sent = [
        chunk(reasoning_content="a", top={"usage": USAGE}),
        chunk(reasoning_content="b", annotations=[1]),
        chunk(reasoning_content="c", tool_calls=[call(0, "id1", "f", "{}")]),
        chunk(finish="tool_calls", reasoning_content="d"),
    ]
    played = play(sent, Wish("hidden"))
    assert [top["usage"] for top in played.tops if top.get("usage")] == [USAGE]
    assert [delta["annotations"] for delta in played.deltas if "annotations" in delta] == [[1]]
    assert [delta["tool_calls"][0]["id"] for delta in played.deltas if "tool_calls" in delta] == ["id1"]
    assert [top["choices"][0]["finish_reason"] for top in played.tops][-1] == "tool_calls"
    assert not played.joined("reasoning_content")
    assert played.dialect.usage is not None


def test_hidden_withholds_the_log_probabilities_of_hidden_text() -> None:
    logprobs = {"content": [{"token": "secret", "logprob": -0.1}]}
    played = play(ending(chunk("<think>secret", choice={"logprobs": logprobs}), chunk("</think>x")), Wish("hidden"))
    assert b"secret" not in played.out


def test_roles_that_come_with_each_hidden_delta_are_not_sent_again() -> None:
    sent = [*(chunk(role="assistant", reasoning_content=text) for text in "abc"), chunk("x", role="assistant")]
    assert len(play(ending(*sent), Wish("hidden")).deltas) == 3


def test_an_open_run_is_closed_before_calls_and_before_the_finish_reason() -> None:
    with_call = play([chunk(reasoning="a"), chunk(tool_calls=[call(0, "i", "f", "{}")]), chunk(finish="tool_calls")], Wish("think_tags"))
    assert with_call.joined("content") == "<think>a</think>"
    assert [sorted(delta) for delta in with_call.deltas if delta.get("content") or "tool_calls" in delta][-1][-1] == "tool_calls"
    without = play(ending(chunk(reasoning="a")), Wish("think_tags"))
    assert [delta.get("content") for delta in without.deltas] == ["", "<think>a", "</think>", None]
    bare = play([chunk(reasoning="a"), chunk("b")], Wish("think_tags"))  # a stream that ends with [DONE] alone
    assert bare.joined("content") == "<think>a</think>b"


def test_two_runs_are_opened_and_closed_once_each() -> None:
    sent = ending(chunk(reasoning="a"), chunk("b"), chunk(reasoning="c"), chunk(reasoning="d"), chunk("e"))
    assert play(sent, Wish("think_tags")).joined("content") == "<think>a</think>b<think>cd</think>e"


def test_what_looked_like_a_tag_at_the_end_is_not_lost() -> None:
    played = play(ending(chunk("if a <"), chunk("th")), Wish("reasoning_content"))
    assert played.joined("content") == "if a <th"
    assert played.tops[-1]["choices"][0]["finish_reason"] == "stop"


def test_what_is_held_comes_before_the_error_that_cuts_a_stream_short() -> None:
    dialect = Chat(1, "", Wish("reasoning"))
    data = chunk("a <th").encode()
    dialect.read(Event(None, data, b"data: " + data + b"\n\n"))
    told = dialect.fail(Failure("upstream_incomplete", "cut")).data.split(b"\n\n")
    assert json.loads(told[0][6:])["choices"][0]["delta"] == {"content": "<th"}
    assert "error" in json.loads(told[1][6:])


def test_reasoning_that_is_never_closed_is_delivered_and_told() -> None:
    played = play(ending(chunk("<think>plan"), chunk(" and more")), Wish("reasoning_content"))
    assert played.joined("reasoning_content") == "plan and more"
    assert b"\n\n: the upstream never closed" in played.out
    assert played.dialect.remarks == ("reasoning_unclosed",)
    assert play(ending(chunk("<think>plan"))).dialect.remarks == ("reasoning_unclosed",)
    assert b"\n:" not in play(ending(chunk("<think>plan"))).out


def test_a_closing_tag_alone_stays_text_unless_the_route_says_that_text_begins_inside() -> None:
    sent = ending(chunk("plan</th"), chunk("ink>answer"))
    played = play(sent, Wish("reasoning_content"))
    assert played.joined("content") == "plan</think>answer"
    assert played.dialect.remarks == ("reasoning_unopened",)
    inside = play(sent, Wish("reasoning_content", begins_inside=True))
    assert inside.order("reasoning_content", "content") == [("reasoning_content", "plan"), ("content", "answer")]


def test_text_does_not_begin_inside_where_reasoning_has_a_field_of_its_own() -> None:
    for wish in (Wish("reasoning", begins_inside=True), Wish(begins_inside=True)):
        assert play(ending(chunk(reasoning="a"), chunk("answer")), wish).joined("content") == "answer"
        assert play(ending(chunk(reasoning="a"), chunk("answer")), wish).reasoning_kinds[-1] is Kind.CONTENT


def test_reasoning_beyond_the_limit_is_not_delivered_and_the_answer_is_whole() -> None:
    sent = ending(*(chunk(reasoning_content="four") for _ in range(10)), chunk("the whole answer, untouched"))
    played = play(sent, Wish(most_tokens=3))
    assert played.joined("reasoning_content") == "four" * 3
    assert played.joined("content") == "the whole answer, untouched"
    assert play(sent, Wish(most_tokens=0)).joined("reasoning_content") == ""
    tags = play(ending(chunk("<think>four"), chunk("four"), chunk("four</think>x")), Wish(most_tokens=1))
    assert tags.joined("content") == "<think>four</think>x"


def test_tags_mark_reasoning_that_keeps_its_form() -> None:
    played = play(ending(chunk("<think>plan"), chunk("</think>x")), Wish(tagged=True))
    assert played.joined("content") == "<think>plan</think>x"
    assert [(delta.get("content"), delta.get("reasoning_tag")) for delta in played.deltas[1:-1]] == [
        ("<think>plan", "think_open"),
        ("</think>", "think_chunk"),
        (None, "think_close"),
        ("x", None),
    ]


@pytest.mark.parametrize("source", ["details", "summaries", "parts"])
def test_lists_that_keep_their_form_are_marked_and_bounded_whole(source: str) -> None:
    played = play(SOURCES[source], Wish(tagged=True))
    assert [delta.get("reasoning_tag") for delta in played.deltas[1:-1]] == ["think_open", "think_chunk", "think_close", None]
    unmarked = [{key: value for key, value in delta.items() if key != "reasoning_tag"} for delta in played.deltas]
    assert [delta for delta in unmarked if delta] == [delta for delta in play(SOURCES[source]).deltas if delta]
    assert len(play(SOURCES[source], Wish(most_tokens=2)).deltas) == 4  # role, the first thought, the answer, the end


def test_choices_are_kept_apart() -> None:
    sent = [chunk("<think>a", index=0), chunk("b<", index=1), chunk("</think>c", index=0), chunk("think>", index=1)]
    played = play([*sent, chunk(index=0, finish="stop"), chunk(index=1, finish="stop")], Wish("reasoning"))
    found: dict[tuple[int, str], str] = {}
    for top in played.tops:
        for choice in top["choices"]:
            for name, text in choice["delta"].items():
                if name != "role":
                    found[choice["index"], name] = found.get((choice["index"], name), "") + text
    assert found == {(0, "content"): "c", (0, "reasoning"): "a", (1, "content"): "b<think>"}


Runs = st.lists(
    st.tuples(st.sampled_from(["reasoning_content", "reasoning", "content"]), st.text("ab <\n`é/", min_size=1, max_size=8)), max_size=12
)


@given(Runs, st.sampled_from(FORMATS["chat"]), st.booleans(), st.sampled_from([None, 0.5, 2.0]))
def test_text_is_exact_and_in_order_in_every_form(deltas: list[tuple[str, str]], format: Format, tagged: bool, cut: float | None) -> None:
    sent = ending(*(chunk(**{name: text}) for name, text in deltas))
    played = play(sent, Wish(format, tagged=tagged), cut=cut)
    expected: list[tuple[bool, str]] = []
    for name, text in deltas:
        thought = name != "content"
        if thought and format == "hidden":
            continue
        if expected and expected[-1][0] == thought:
            expected[-1] = (thought, expected[-1][1] + text)
        else:
            expected.append((thought, text))
    if format == "think_tags":
        whole = "".join(f"<think>{text}</think>" if thought else text for thought, text in expected)
        assert played.joined("content") == whole
        return
    got = [("content" if name == "content" else "", text) for name, text in played.order("reasoning_content", "reasoning", "content")]
    assert merged(got) == merged([("" if thought else "content", text) for thought, text in expected])


def merged(texts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for name, text in texts:
        out[-1:] = [(name, out[-1][1] + text)] if out and out[-1][0] == name else [*out[-1:], (name, text)]
    return out


def test_chunks_without_reasoning_pass_with_their_bytes_whatever_is_asked() -> None:
    sent: list[Any] = [chunk("a"), chunk(" b", top={"x": 1.50}), chunk("c", index=0, choice={"logprobs": None})]
    for format in FORMATS["chat"]:
        out = play(ending(*sent), Wish(format, most_tokens=5)).out
        for data in sent:
            assert data.encode() in out


def completions(texts: list[str], wish: Wish) -> str:
    dialect = Completions(1, "", wish)
    out = b""
    for choice in [
        *({"index": 0, "text": text, "finish_reason": None} for text in texts),
        {"index": 0, "text": "", "finish_reason": "stop"},
    ]:
        data = json.dumps({"id": "c", "object": "text_completion", "choices": [choice], "model": "m"}).encode()
        out += b"".join(piece.data for piece in dialect.read(Event(None, data, b"data: " + data + b"\n\n")))
    return "".join(json.loads(line[6:])["choices"][0]["text"] for line in out.decode().split("\n") if line.startswith("data: "))


def test_completions_have_tags_too() -> None:
    texts = ["<thi", "nking>plan", "</thinking>", "answer <b"]
    assert completions(texts, Wish()) == "".join(texts)
    assert completions(texts, Wish("think_tags")) == "<think>plan</think>answer <b"
    assert completions(texts, Wish("hidden")) == "answer <b"
