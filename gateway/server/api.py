"""The API's paths, as one raw ASGI callable: what a request asks for decides which way it goes.

stream asked for on a dialect's path -> Exchange, from the first moment (heartbeats while the upstream thinks)
anything else -> opened, then passed on as it is; unless it turns out to be an event stream: then an Exchange adopts it
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import httpx

from gateway.errors import Failure
from gateway.relay.channel import Message, Send
from gateway.relay.exchange import Exchange
from gateway.relay.failures import in_the_answer
from gateway.relay.patience import Parts, in_time
from gateway.server.admitting import know, leave, let_by, let_in
from gateway.server.answers import refuse
from gateway.server.asking import ClientGone, Receive, Refused, read_body, understand
from gateway.server.call import Call, Scope
from gateway.server.controlling import controls_for
from gateway.server.gateway import Gateway
from gateway.server.gathering import pass_gathered, pass_models
from gateway.server.passing import Upload, pass_on
from gateway.server.resuming import follow, may_resume_other, other_ticket_for, response_held, ticket_for
from gateway.server.sending import Sending
from gateway.server.streaming import exchange_for, note
from gateway.server.usage import Reader, settle, settle_answer
from gateway.wire import headers

LOG: Final = logging.getLogger("decluster")
_RIGHT_PATHS: Final = "The API is under /v1/, e.g. POST /v1/chat/completions; set the client's base_url to http://HOST:PORT/v1."


class Api:
    """Serves one request a call."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _Request(self._gateway, scope, receive, send).serve()


class _Request(Call):
    """One request on its way. `_passed`: something was sent of an answer; None where no plain answer is asked for."""

    __slots__ = ("_passed",)

    async def serve(self) -> None:
        self._passed: bool | None = None
        await self._to_its_end(self._serve)

    async def _to_its_end(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ClientGone:
            self.record.reason = "client_gone"
        except Refused as refused:
            self.record.reason = refused.failure.code
            await self._refuse(refused.failure)
        except asyncio.CancelledError:
            self.record.reason = "shutting_down"
            await self._refuse(Failure("shutting_down", "The gateway is shutting down and could not finish this answer. Ask again."))
            if not self.gateway.draining:
                raise  # else the grace is over and the server ends its requests: this is this one's end, and no fault to be logged
        except Exception:
            LOG.exception("a request failed inside the gateway", extra={"request_id": self.record.request_id})  # names places, not values
            self.record.reason = "internal"
            await self._refuse(Failure("internal", "The gateway failed to handle this request; its log says where."))
        finally:
            self.record.duration_s = self.gateway.loop.time() - self.began
            self.gateway.book(self.record)
            if self.span is not None:
                self.span.end(self.record)

    async def _refuse(self, failure: Failure) -> None:
        """Answer with the failure, if nothing was sent yet. Where it all was an Exchange's, its status says so."""
        if self.record.status if self._passed is None else self._passed:
            return
        self.record.status = failure.http_status
        await refuse(self.send, failure, self.request_id, self.dialect.error_body(failure) if self.dialect else None)

    async def _serve(self) -> None:
        if self.path is None:
            raise Refused(Failure("not_found", f"There is nothing at this path. {_RIGHT_PATHS}"))
        if (headers.first(self.fields, b"upgrade") or b"").lower() == b"websocket":
            fields = ((b"upgrade", b"HTTP/1.1"), (b"connection", b"close"))
            raise Refused(Failure("websocket_unsupported", "WebSockets are not spoken here; use plain HTTP streaming.", headers=fields))
        if self.gateway.draining:
            raise Refused(
                Failure(
                    "shutting_down", "The gateway is shutting down. Ask again.", headers=((b"connection", b"close"), (b"retry-after", b"1"))
                )
            )
        know(self)
        upstream = self.target.upstream
        self.record.upstream, self.record.provider = upstream.name, upstream.provider
        limits = self.gateway.settings.limits
        if self.dialect is None or self.method != "POST":
            self.controls = controls_for(self)
            await self._serve_other()
            return
        body = await read_body(self.receive, self.fields, limits.request_bytes)
        ticket = ticket_for(self, body)
        if ticket is None:
            await self._answer(body)
        else:
            await follow(self, ticket, self._watch, lambda maker: maker._to_its_end(lambda: maker._answer(body)))

    async def _serve_other(self) -> None:
        """A request that is none for an answer in a dialect. It may be for a stream all the same."""
        held = await response_held(self, self._watch)
        if held is not None:
            await held()
            return
        body = await self._other_body()
        ticket = other_ticket_for(self, body) if isinstance(body, bytes) else None
        if ticket is None:
            await self._pass_by(body)
        else:
            await follow(self, ticket, self._watch, lambda maker: maker._to_its_end(lambda: maker._pass_by(body)))

    async def _pass_by(self, body: bytes | Upload) -> None:
        await let_by(self)
        sending = Sending(self, body, alone=self.path != b"/models")
        try:
            await self._pass(sending)
        finally:
            sending.close()

    async def _answer(self, body: bytes) -> None:
        sending = Sending(self, body, known=True)
        self.record.model, self.record.stream = self.ask.model, self.ask.stream
        await let_in(self, sending.body if isinstance(sending.body, bytes) else body)
        try:
            if self.ask.stream:
                await self._run(exchange_for(self), sending)
            else:
                await self._pass(sending)
        finally:
            sending.close()
            leave(self)
            settle(self, None, None)  # where nothing was counted

    # A stream

    async def _run(self, exchange: Exchange, sending: Sending, response: httpx.Response | None = None) -> None:
        """`response`: there already, where it turned out to be a stream that the request's body did not ask for."""

        async def passing(response: httpx.Response) -> None:
            await pass_on(response, self._parts(response), self.send, self.request_id)

        if sending.mending is not None:
            sending.mending.watch(exchange)
        watch = self.gateway.loop.create_task(self._watch(exchange.leave))
        self.gateway.exchanges.add(exchange)
        self.gateway.lateness.watch()
        try:
            await exchange.run(sending.tries, passing, sending.renewed, response)
        finally:
            self.gateway.exchanges.discard(exchange)
            watch.cancel()
            note(self, exchange)

    # Anything else

    def _upload(self) -> bytes | Upload:
        if headers.first(self.fields, b"content-length") in (None, b"0") and headers.first(self.fields, b"transfer-encoding") is None:
            return b""
        return Upload(self.receive, None)

    async def _other_body(self) -> bytes | Upload:
        """Of a request that is none for an answer. It is read only where its model or whether it can be resumed is to be known."""
        length = headers.first(self.fields, b"content-length") or b""
        limit = self.gateway.settings.limits.request_bytes
        routed = (self.gateway.settings.routes or may_resume_other(self)) and headers.media_type(self.fields) == b"application/json"
        if not (routed and length.isdigit() and 0 < int(length) <= limit):
            return self._upload()
        body = await read_body(self.receive, self.fields, limit)
        self.ask = replace(understand(body, self.fields, limit), stream=False, carried=None)
        self.record.model = self.ask.model
        return body

    async def _pass(self, sending: Sending) -> None:
        loop = self.gateway.loop
        send = self.send
        self._passed = False

        reader = Reader() if self.dialect is not None and self.method == "POST" else None

        this = asyncio.current_task()
        gone = over = False

        async def noted(message: Message) -> None:
            nonlocal over
            self._passed = True
            if reader is not None:
                reader.take(message)
            over = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        def left() -> None:
            nonlocal gone
            if this is not None and not over:  # a server says so too once the answer is whole
                gone = True
                this.cancel()

        self.send = noted

        watch = loop.create_task(self._watch(left, sending.body if isinstance(sending.body, Upload) else None))
        try:
            await self._open_and_pass(sending)
        except asyncio.CancelledError:
            if gone and this is not None and not this.uncancel():
                raise ClientGone from None
            raise
        finally:
            if reader is not None:
                settle_answer(self, reader)
            watch.cancel()
            self.send = send  # `noted` knows this request: without it both are freed at once

    async def _open_and_pass(self, sending: Sending) -> None:
        tries = sending.tries
        try:
            while True:
                response = await in_time(tries.head(), self.gateway.settings.clocks, self.began)
                if isinstance(response, Failure):
                    tries.over(response)  # if it is the clock of the whole; the others were judged
                    raise Refused(response)
                self.record.status = response.status_code
                try:
                    await self._take(response, sending)
                except Refused as refused:  # by what came behind the head; nothing of it was passed on
                    if tries.judge(refused.failure):
                        continue
                    raise Refused(tries.last_words(refused.failure)) from None
                tries.over(None)
                return
        finally:
            tries.left()

    async def _take(self, response: httpx.Response, sending: Sending) -> None:
        if headers.media_type(response.headers.raw) == b"text/event-stream" and response.status_code < 300 and self.method != "HEAD":
            if self.dialect is not None and self.method == "POST":
                await pass_gathered(self, response, self.dialect)
            else:
                self.record.stream = True
                await self._run(exchange_for(self), sending, response)
            return
        try:
            if self.path == b"/models" and self.method == "GET" and response.status_code == 200:
                await pass_models(self, response)
            else:
                # Others' clients may wait for the head alone, and a refusal says the most by its status.
                hold = self.dialect is not None and self.method == "POST" and response.status_code < 300
                await pass_on(response, self._parts(response), self.send, self.request_id, hold=hold)
        except httpx.TransportError as error:
            failure = in_the_answer(error)
            if not self._passed:
                raise Refused(failure) from None
            self.record.reason = failure.code  # and the client's message is left unfinished, which tells it so
            sending.tries.over(failure)

    def _parts(self, response: httpx.Response) -> Parts:
        return Parts(response, self.gateway.loop, self.gateway.settings.clocks, self.began)

    async def _watch(self, left: Any, upload: Upload | None = None) -> None:
        """Wait for the client to leave; while it uploads, that is the upload's to see."""
        if upload is not None:
            await upload.done.wait()
        while (await self.receive())["type"] != "http.disconnect":
            pass
        left()
