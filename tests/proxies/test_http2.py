"""Many streams over one connection, as a browser has them over HTTP/2 where HTTP/1.1 would give it six: by the proxies of deploy/, since the
gateway itself speaks HTTP/1.1 to clients. Without TLS here, whose part is done before any of this begins.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

from proxies.test_proxies import PROXIES, Proxy, running
from support import sse
from support.client import CHAT, chat_body
from support.gateway import serving, settings_for
from support.simulated import simulated
from support.upstream import SAFETY_S

pytestmark = pytest.mark.anyio
STREAMS = 16
SPEAKERS = [proxy for proxy in PROXIES if proxy.name in ("nginx", "envoy")]  # of HTTP/2 without TLS, as deploy/ has them


@dataclass
class Stream:
    status: str = ""
    frames: list[bytes] = field(default_factory=list)
    over: str = ""  # "ended" or "reset"

    @property
    def body(self) -> bytes:
        return b"".join(self.frames)


class Browser:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(2**24)
        self.streams: dict[int, Stream] = {}

    @classmethod
    async def to(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def ask(self, body: bytes) -> int:
        number = self._h2.get_next_available_stream_id()
        fields = [
            (":method", "POST"),
            (":path", CHAT),
            (":scheme", "http"),
            (":authority", "gateway.test"),
            ("content-type", "application/json"),
        ]
        self._h2.send_headers(number, fields)
        self._h2.send_data(number, body, end_stream=True)
        self.streams[number] = Stream()
        self._writer.write(self._h2.data_to_send())
        return number

    def drop(self, number: int) -> None:
        self._h2.reset_stream(number, 8)  # CANCEL
        self._writer.write(self._h2.data_to_send())

    async def read(self) -> None:
        """What comes next."""
        async with asyncio.timeout(SAFETY_S):
            data = await self._reader.read(65_536)
        assert data, "the connection was closed"
        for event in self._h2.receive_data(data):
            if isinstance(event, DataReceived):
                self.streams[event.stream_id].frames.append(event.data)
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, ResponseReceived):
                self.streams[event.stream_id].status = dict(event.headers)[":status"]
            elif isinstance(event, StreamEnded):
                self.streams[event.stream_id].over = "ended"
            elif isinstance(event, StreamReset):
                self.streams[event.stream_id].over = "reset"
        self._writer.write(self._h2.data_to_send())

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def speaking(proxy: Proxy) -> Proxy:
    """nginx of Debian 12 is told so at the listening line; later ones by `http2 on`."""
    return replace(proxy, more=lambda text: text.replace("listen 8443;", "listen 8443 http2;"))


@pytest.mark.parametrize("proxy", SPEAKERS, ids=lambda proxy: proxy.name)
async def test_many_streams_share_a_connection_and_each_is_whole_and_flows(proxy: Proxy, tmp_path: Path) -> None:
    with simulated() as upstream:
        async with serving(settings_for(upstream)) as gateway, running(speaking(proxy), gateway.port, tmp_path) as port:
            browser = await Browser.to(port)
            for _ in range(STREAMS):
                browser.ask(chat_body(True, model="tool-call"))
            while not all(stream.over for stream in browser.streams.values()):
                await browser.read()
            await browser.close()
    for stream in browser.streams.values():
        assert (stream.status, stream.over) == ("200", "ended")
        events = sse.read(stream.body)[0]
        assert events[-1].data == "[DONE]"
        assert len(stream.frames) > len(events) / 10, "a proxy that gathers gives a few large frames"


@pytest.mark.parametrize("proxy", SPEAKERS, ids=lambda proxy: proxy.name)
async def test_a_stream_that_is_dropped_ends_the_upstreams_work_and_no_other_stream(proxy: Proxy, tmp_path: Path) -> None:
    with simulated() as upstream:
        async with serving(settings_for(upstream)) as gateway, running(speaking(proxy), gateway.port, tmp_path) as port:
            browser = await Browser.to(port)
            dropped, kept = browser.ask(chat_body(True, model="clusters")), browser.ask(chat_body(True, model="tool-call"))
            while not browser.streams[dropped].frames:
                await browser.read()
            browser.drop(dropped)
            while not browser.streams[kept].over:
                await browser.read()
            assert browser.streams[kept].body.endswith(b"data: [DONE]\n\n")
            await browser.close()
            await gateway.idle()
            assert gateway.metric("decluster_stream_end_total", reason="client_gone") == 1
            assert gateway.metric("decluster_stream_end_total", reason="whole") == 1
