"""What a request becomes on its way to one target of its route: another model's name, members that are set, members that are lowered.

Invariant: what is not named keeps its bytes.
"""

from __future__ import annotations

from gateway.settings import RouteTarget
from gateway.wire import jsontext
from gateway.wire.jsontext import Members


def shapes(target: RouteTarget) -> bool:
    """Whether a body is changed on this way."""
    return bool(target.model is not None or target.set or target.cap)


def shaped(body: bytes, target: RouteTarget) -> bytes:
    """ValueError where the body is no JSON object."""
    top = jsontext.members(body)
    if target.model is not None:
        top["model"] = jsontext.quote(target.model)
    for name, value in target.set:
        jsontext.put(top, name.split("."), jsontext.dump(value))
    for name, most in target.cap:
        _lower(top, name.split("."), most)
    return jsontext.join(top)


def _lower(top: Members, path: list[str], most: int) -> None:
    name, *rest = path
    if name not in top:
        return
    if rest:
        if top[name].startswith(b"{"):
            inner = jsontext.members(top[name])
            _lower(inner, rest, most)
            top[name] = jsontext.join(inner)
        return
    value = jsontext.value(top[name])
    if isinstance(value, int | float) and not isinstance(value, bool) and value > most:
        top[name] = b"%d" % most
