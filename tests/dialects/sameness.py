"""Whether what left of a corpus' stream is the stream that came: text, order and fields, by the family of its dialect."""

from __future__ import annotations

import json

from dialects.corpora import BY_NAME, datas, of
from gateway.dialects.choices import ChoicesDialect
from support import extras, sse
from support.chunks import DONE, collect
from support.typed import said

# How typed streams end.
ENDS = {
    "responses": ("response.completed", "response.incomplete"),
    "messages": ("message_stop",),
}
# What is mended in them: the same stream as a careful server would have sent it.
CAREFULLY = {
    "gemini-parallel-one-index.sse": (b'"index":0,"id":"function-call-2"', b'"index":1,"id":"function-call-2"'),
    "sglang-nulls.sse": (b'"role":null,', b""),
}


def same_choices(folder: str, name: str, out: bytes) -> None:
    came, went = datas(of(folder, name).replace(*CAREFULLY.get(name, (b"", b"")))), datas(out)
    before, after = collect(came), collect(went)
    if folder == "chat":
        assert all("delta" in choice for data in went if data != DONE for choice in json.loads(data)["choices"])
    assert after.choices == before.choices
    assert after.order == before.order
    assert after.ids == before.ids
    assert after.usages == before.usages
    assert after.errors == before.errors == []
    assert (after.done, after.after_done) == (1, 0)
    assert went[-1] == DONE
    assert extras.once(went) == extras.once(came)
    assert extras.envelope(went) == extras.envelope(came)
    finishes = [choice.finish_frames for choice in after.choices.values()]
    assert finishes == [1] * len(finishes)


def same_typed(folder: str, name: str, out: bytes) -> None:
    events = sse.read(out)[0]
    before, after = said(datas(of(folder, name))), said(event.data for event in events)
    assert after.runs == before.runs
    first = before.numbers[:1]
    assert after.numbers == list(range(first[0], first[0] + len(after.kinds)) if first else [])
    assert after.kinds[-1] in ENDS[folder]
    named = [event for event in events if event.name]
    assert all(event.name == json.loads(event.data)["type"] for event in named)
    assert len(named) in (0, len(events))


def same(folder: str, name: str, out: bytes) -> None:
    (same_choices if issubclass(BY_NAME[folder], ChoicesDialect) else same_typed)(folder, name, out)
