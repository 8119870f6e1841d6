"""The command's way through the upstreams: each is asked once a key, and told in a line as soon as it is known."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

import httpx

from gateway.checking.ask import Finding, ask
from gateway.settings import Settings, Upstream
from gateway.upstream.tls import context_factory
from gateway.upstream.transport import Transport

Opened = Callable[[Upstream], httpx.AsyncBaseTransport]


def run(settings: Settings, opened: Opened | None = None) -> bool:
    """Whether every upstream can be used. Says so on stdout; on a terminal's stderr, whom it is asking."""
    return asyncio.run(_all(settings, opened or _own))


def _own(upstream: Upstream) -> httpx.AsyncBaseTransport:
    return Transport(connections_idle=0, ssl_context=context_factory(upstream.ca_file))


async def _all(settings: Settings, opened: Opened) -> bool:
    wrong = 0
    asked = [(upstream, at, key) for upstream in settings.upstreams for at, key in enumerate(upstream.keys or (None,))]
    for number, (upstream, at, key) in enumerate(asked, 1):
        name = upstream.name + (f" (key {at + 1} of {len(upstream.keys)})" if len(upstream.keys) > 1 else "")
        _show_progress(f"asking {name}, {number} of {len(asked)} ...")
        transport = opened(upstream)
        began = time.monotonic()
        try:
            finding = await ask(upstream, key, transport, settings.clocks.connect, os.environ)
        finally:
            await transport.aclose()
        _show_progress("")
        _tell(name, finding, time.monotonic() - began)
        wrong += not finding.usable
    for place, url in (("admission.redis", settings.admission.redis), ("resume.redis", settings.resume.redis)):
        if url is not None:
            wrong += not await _ask_redis(place, url)
    print("all can be used" if not wrong else f"{wrong} cannot be used")
    return not wrong


def _tell(name: str, finding: Finding, took_s: float) -> None:
    print(f"{'ok  ' if finding.usable else 'FAIL'}  {name}: {finding.text} ({took_s:.2f} s)")
    for remark in finding.remarks:
        print(f"      {remark}")
    sys.stdout.flush()


async def _ask_redis(place: str, url: str) -> bool:
    try:
        from redis.asyncio import Redis
    except ImportError:
        print(f"FAIL  {place}: its client is not installed: pip install 'decluster[redis]'")
        return False
    client = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
    try:
        await client.get("decluster")
    except Exception as error:  # whatever it raises; its text may hold the URL's password
        print(f"FAIL  {place}: it cannot be asked ({type(error).__name__}): check its address and password")
        return False
    finally:
        await client.aclose()
    print(f"ok    {place}: it answers")
    return True


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
