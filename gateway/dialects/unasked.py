"""Usage that the gateway asked for and the client did not: taken out of the stream, so that it is as it would have been.

With `include_usage` each chunk says `"usage":null`, and one more chunk without choices tells the usage. Owns how both leave; what else
is in a chunk keeps its bytes.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event, render

# Only flat members stand between it and the brace that closes the data, so it is the chunk's own and not a choice's.
_AT_THE_END: Final = re.compile(
    rb',\s*"usage"\s*:\s*null(?=(?:\s*,\s*"[A-Za-z_]+"\s*:\s*(?:"(?:[^"\\]|\\.)*"|null|true|false|[-+.0-9eE]+))*\s*\}\s*$)'
)
_LAST: Final = b',"usage":null}'
# What a chunk says that tells nothing but usage.
_TOLD: Final = frozenset(
    {"id", "object", "created", "model", "system_fingerprint", "service_tier", "provider", "choices", "usage", "obfuscation"}
)


def without_null(event: Event) -> Event:
    """The event without its `"usage":null`; the same where it has none."""
    data = event.data
    if data.endswith(_LAST) and b"\n" not in data:  # as most write it; in a string the quotes would be escaped
        data = data[: -len(_LAST)] + b"}"
        return Event(event.name, data, render(data, event.name))
    data, found = _AT_THE_END.subn(b"", data, count=1)
    if not found:
        try:
            top = jsontext.members(event.data)
        except ValueError:
            return event
        if top.get("usage") != b"null":
            return event
        del top["usage"]
        data = jsontext.join(top)
    return Event(event.name, data, render(data, event.name))


def without_usage(top: Members) -> Members | None:
    """A chunk without choices, less its usage; None where that leaves nothing to say."""
    rest = {name: raw for name, raw in top.items() if name != "usage"}
    return None if rest.keys() <= _TOLD else rest
