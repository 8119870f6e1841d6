"""The way of one request past its limits, in order: its key, what it may spend, what may be asked a minute, and its turn."""

from __future__ import annotations

from typing import Final

from gateway.errors import Failure
from gateway.policy.cost import Spending, estimated_input_tokens
from gateway.relay.exchange import Exchange
from gateway.server.asking import Refused, plain
from gateway.server.call import Call
from gateway.server.clients import client_of, identity
from gateway.server.spending import used_up
from gateway.server.usage import settle

_BUSY: Final = "The machine is too busy to pace one more answer in time (admission.late). Ask again shortly."


def know(call: Call) -> None:
    """Whose key the request came with. Refused where it has none that is known."""
    call.client = client_of(call.gateway.settings.clients, call.fields)
    if call.client is not None:
        call.record.client = call.client.name


async def let_by(call: Call) -> None:
    """A request whose body passes unread. What is only looked up costs nothing."""
    if call.method == "POST" and call.gateway.admission.rates is not None:
        await call.gateway.admission.admit_request(call.client, identity(call.client, call.fields))


async def let_in(call: Call, body: bytes) -> None:
    """A request for an answer: refused, or it holds its place until `leave`."""
    gateway, client, controls = call.gateway, call.client, call.controls
    late_s = gateway.settings.admission.late
    if late_s is not None and gateway.lateness.over(late_s):  # one more stream would make those late that run
        raise Refused(Failure("overloaded", _BUSY, headers=((b"retry-after", b"2"),)))
    most_usd = controls.budget_usd if controls is not None else None
    call.prompt_bytes = len(body)
    budgeted = most_usd is not None or (client is not None and client.budget_per_day is not None)
    if budgeted or gateway.admission.weighs:
        call.prompt_tokens = estimated_input_tokens(plain(body, call.fields, gateway.settings.limits.request_bytes))
    if budgeted:
        call.spending = await gateway.costs.spending(client, call.target.upstream, call.sent_model, call.prompt_tokens, most_usd)
    try:
        call.place = await gateway.admission.admit(call, client, identity(client, call.fields), call.prompt_tokens)
    except BaseException:
        settle(call, None, None)
        raise


def leave(call: Call) -> None:
    """The answer is over, or was refused."""
    if call.place is not None:
        call.place.leave()


def keep_to_budget(call: Call, exchange: Exchange) -> None:
    """The stream is ended once what came of it has used up a budget."""
    spending = call.spending
    if spending is None:
        return
    watched: Spending = spending
    most_usd = call.controls.budget_usd if call.controls is not None else None
    day_usd = call.client.budget_per_day if call.client is not None else None

    def spent(tokens: float) -> Failure | None:
        which = watched.spent(tokens)
        return None if which is None else used_up(which, (most_usd if which == "request" else day_usd) or 0.0)

    exchange.spent = spent
