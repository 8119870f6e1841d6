"""A stream that begins with a burst: its first token leaves before the rest of the burst is decoded."""

from __future__ import annotations

import json

import pytest

from gateway.relay.opening import Opening
from support import virtual
from support.chunks import ROLE, chunk
from support.client import stream
from support.gateway import serving, settings_for
from support.plays import Play, Write, sse
from support.upstream import ScriptedUpstream

BURST = [ROLE, *(chunk(f" word{number}") for number in range(600)), chunk(finish="stop"), "[DONE]"]


def test_the_first_token_leaves_before_the_rest_is_read() -> None:
    machine = virtual.stream()
    arrived_tokens: list[float] = []

    def flush(now: float) -> None:
        if machine.due(now):
            arrived_tokens.append(machine.arrived.tokens)

    Opening(machine).read(0.0, sse(BURST), flush)
    assert machine.arrived.tokens > 1000.0, "all of it was read"
    assert arrived_tokens[0] < 16.0, "and a few events of it before the first frame left"


@pytest.mark.anyio
async def test_decoding_is_part_of_what_was_added_though_the_loops_time_stands_still() -> None:
    async with ScriptedUpstream(Play((Write(sse(BURST)),))) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port, [("content-type", "application/json")])
        await gateway.idle()
        assert gateway.metric("decluster_overhead_seconds_sum") > 0
    text = "".join(json.loads(event.data)["choices"][0]["delta"].get("content") or "" for event in answer.events if event.data != "[DONE]")
    assert text == "".join(f" word{number}" for number in range(600))
