"""A stream that begins with a burst: its first token leaves before the rest of the burst is decoded."""

from __future__ import annotations

import json

import pytest

from support.chunks import ROLE, chunk
from support.client import stream
from support.gateway import serving, settings_for
from support.plays import Play, Write, sse
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio
BURST = [ROLE, *(chunk(f" word{number}") for number in range(600)), chunk(finish="stop"), "[DONE]"]


async def test_the_first_token_leaves_before_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.relay.outlet import Outlet
    from gateway.stream import Stream

    happened: list[tuple[str, int]] = []
    receive, frame = Stream.receive, Outlet.frame

    def noted_receive(self: Stream, now: float, data: bytes) -> None:
        happened.append(("read", len(data)))
        receive(self, now, data)

    def noted_frame(self: Outlet, data: bytes) -> None:
        happened.append(("written", len(data)))
        frame(self, data)

    monkeypatch.setattr(Stream, "receive", noted_receive)
    monkeypatch.setattr(Outlet, "frame", noted_frame)
    async with ScriptedUpstream(Play((Write(sse(BURST)),))) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port, [("content-type", "application/json")])
        await gateway.idle()
        assert gateway.metric("decluster_overhead_seconds_sum") > 0, (
            "decoding is part of what was added, though the loop's time stood still"
        )
    text = "".join(json.loads(event.data)["choices"][0]["delta"].get("content") or "" for event in answer.events if event.data != "[DONE]")
    assert text == "".join(f" word{number}" for number in range(600))
    first = next(index for index, (what, _) in enumerate(happened) if what == "written")
    before = sum(size for what, size in happened[:first] if what == "read")
    assert before <= 4096 < len(sse(BURST))
