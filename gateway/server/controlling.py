"""What a request asks of the gateway, taken out of what goes on to the upstream.

Owns the way from a request's body and headers to its controls and to the body that the upstream gets. A body without controls goes on as
it came, byte for byte, compressed or not.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.reforms import Wish
from gateway.errors import Failure
from gateway.policy.controls import Carried, Controls, controls_of
from gateway.policy.stripping import carries, stripped, unwrapped
from gateway.server.asking import Refused, plain, understand
from gateway.server.call import Call
from gateway.wire.headers import Fields


def prepared(call: Call, body: bytes) -> bytes:
    """Sets what the call asks for and its controls; returns the body for the upstream. Refused where a control is not what it may be."""
    limit_bytes = call.gateway.settings.limits.request_bytes
    call.ask = ask = understand(body, call.fields, limit_bytes)
    carried, upstream = ask.carried, call.target.upstream
    if carried is None or not carries(carried):
        call.controls = controls_for(call, carried)
        return body
    own = plain(body, call.fields, limit_bytes)
    if bytes(carried.extra_body or b""):
        wrapped = unwrapped(own)
        if wrapped is None:
            raise Refused(Failure("invalid_control", "extra_body takes an object, whose members are unwrapped.", param="extra_body"))
        own = wrapped
        call.ask = ask = understand(own, [], limit_bytes)
        carried = ask.carried or Carried()
    call.controls = controls = controls_for(call, carried)
    if upstream.forward_extensions:
        return body
    call.fields = without_coding(call.fields)
    return stripped(own, controls.reasoning_limit, upstream.reasoning_limit_field)


def controls_for(call: Call, carried: Carried | None = None) -> Controls:
    """`carried`: None where there is no body of ours to look into."""
    settings, dialect, route = call.gateway.settings, call.dialect, call.route
    reasoning = settings.reasoning
    if route is not None and route.reasoning_format is not None:
        reasoning = replace(reasoning, format=route.reasoning_format)
    found = controls_of(
        carried or Carried(),
        call.fields,
        dialect=dialect.name if dialect is not None else "",
        reasoning=reasoning,
        model=call.ask.model,
        upstream_limits=call.target.upstream.reasoning_limit_field is not None,
    )
    if isinstance(found, Failure):
        raise Refused(found)
    return found


def most_reasoning(wish: Wish) -> float | None:
    """For dialects that can only leave reasoning out: the most tokens of it."""
    return 0.0 if wish.format == "hidden" else wish.most_tokens


def without_coding(fields: Fields) -> Fields:
    return [field for field in fields if field[0].lower() != b"content-encoding"]
