"""Plays one case: a scripted upstream, the real gateway, a client that behaves as the case says."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import trustme

from cases.reading import SETTINGS, Case, body_of
from support.client import Answer, Client, ask, head
from support.gateway import Running, serving, settings_for
from support.http2_plays import PlayedHttp2
from support.plays import json
from support.upstream import Attempt, ScriptedUpstream

PAUSE_S = 0.05  # of a client that reuses its connection: the case's own 10 s are the server's to wait, and a setting's (checked there)


@dataclass
class Outcome:
    """What came of it. answers: the last is the one to judge; ends: how the gateway booked its streams; usage: tokens it metered."""

    case: Case
    answers: list[Answer]
    attempts: list[Attempt]
    left_at: float | None
    ends: dict[str, float]
    usage: dict[str, float]
    open_connections: int

    @property
    def answer(self) -> Answer:
        return self.answers[-1]


async def play(case: Case, scratch: Path) -> Outcome:
    """scratch: a directory for the case's own files."""
    changes: dict[str, Any] = {}
    for name, value in case.config.items():
        for part, values in SETTINGS.get(name, lambda _: {})(value).items():
            changes[part] = {**changes.get(part, {}), **values}
    if case.expect.get("no_blank_line_only_frames"):
        changes["heartbeat"]["style"] = "chunk"  # the case asks that one can choose it
    tls = None
    if "tls" in case.config:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(scratch / "ca.pem"))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        changes["upstream"] = {"ca_file": str(scratch / "ca.pem")}
    warm_up = [json(b'{"data":[]}')] if case.upstream.get("fail") else []  # what fails is a connection that was kept
    if case.http2:
        changes["upstream"] = {"http2": "true"}
    async with (PlayedHttp2 if case.http2 else ScriptedUpstream)(*warm_up, *case.plays, tls=tls) as upstream:
        url = upstream.url
        if "upstream_host" in case.config:
            url = url.replace("127.0.0.1", "localhost")
        if "upstream_base_url_suffix" in case.config:
            url = url.removesuffix("/v1") + case.config["upstream_base_url_suffix"]
        settings = settings_for(url, **changes)
        if "fallback" in case.config:
            first = settings.upstreams[0]
            settings = replace(settings, upstreams=(first, replace(first, name="second")))
        async with serving(settings) as gateway:
            for _ in warm_up:
                await ask(gateway.port, "GET", "/v1/models")
            answers, left_at = await _ask(case, gateway, upstream)
            await gateway.idle()
            await asyncio.sleep(0)
            return Outcome(
                case, answers, upstream.attempts[len(warm_up) :], left_at, _ends(gateway), _usage(gateway), upstream.open_connections
            )


async def _ask(case: Case, gateway: Running, upstream: ScriptedUpstream | PlayedHttp2) -> tuple[list[Answer], float | None]:
    client, answers, left_at = case.client, [], None
    for turn in range(case.expect.get("repeat", 1)):
        async with await Client.to(gateway.port) as connection:
            await _send(case.request, connection)
            answers.append(connection.answer)
            if "disconnect_after_ms" in client:
                attempt = await upstream.asked(turn + 1)
                await asyncio.sleep(client["disconnect_after_ms"] / 1e3)
                left_at = asyncio.get_running_loop().time()
                connection.leave(abruptly=turn % 2 == 1)
                with contextlib.suppress(TimeoutError):
                    await upstream.left(attempt)
                continue
            if "stop_reading_after_bytes" in client:
                await connection.until(lambda _, link=connection: link.received_bytes >= client["stop_reading_after_bytes"])
                connection.stop_reading()
                if client.get("parallel_fast_client"):
                    async with await Client.to(gateway.port) as fast:
                        await _send(case.request, fast)
                        answers.append(await fast.ended())
                    assert not connection.answer.over
                    assert upstream.connections == 1
                await asyncio.sleep(client["resume_after_ms"] / 1e3)
                connection.read_on()
            if "gateway_sigterm_after_ms" in client:
                await upstream.asked()
                await asyncio.sleep(client["gateway_sigterm_after_ms"] / 1e3)
                await gateway.shut_down()
            await connection.ended()
            if "reuse_connection_after_ms" in client:
                await asyncio.sleep(PAUSE_S)
                assert gateway.gateway.settings.listen.keep_alive > client["reuse_connection_after_ms"] / 1e3
                await _send(case.request, connection)
                answers.append(await connection.ended())
    if "repeat" in case.expect:  # and then one that stays
        async with await Client.to(gateway.port) as connection:
            await _send(case.request, connection)
            answers.append(await connection.ended())
    return answers, left_at


async def _send(request: dict[str, Any], connection: Client) -> None:
    body = body_of(request)
    headers = list(request.get("headers", {}).items())
    if request.get("send") != "chunked":
        if not request.get("wait_for_100"):
            connection.ask(request["method"], request["path"], body, headers)
            return
        connection.expect(request["method"])
        connection.write(head(request["method"], request["path"], headers, len(body or b"")))
        await connection.until(lambda answer: 100 in answer.interim)
        connection.write(body or b"")
        return
    connection.expect(request["method"])
    connection.write(head(request["method"], request["path"], [*headers, ("transfer-encoding", "chunked")]))
    step = request["chunk_bytes"]
    for at in range(0, len(body or b""), step):
        piece = (body or b"")[at : at + step]
        connection.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await asyncio.sleep(0)
    connection.write(b"0\r\n\r\n")


def _ends(gateway: Running) -> dict[str, float]:
    return {labels[0]: count for labels, count in gateway.gateway.metrics.ends.values.items()}


def _usage(gateway: Running) -> dict[str, float]:
    return {kind: gateway.metric("gen_ai_client_token_usage_sum", gen_ai_token_type=kind) for kind in ("input", "output")}
