"""Tool calls over the chunks of a stream: which are open, and what of them was said already.

SDKs add up the strings of a call's deltas, so an id or a name that a server repeats doubles, a call without an index crashes them, and
calls of one index (Gemini's servers gave each of several index 0) become one that nobody can read.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.chunks import Chunk
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

_EMPTY: Final = (b"null", b'""')
_NONE: Final = (*_EMPTY, b"")


class OpenCalls:
    """The calls of all choices. Bounded by the calls that the answer makes."""

    __slots__ = ("_moved", "_open", "_sent")

    def __init__(self) -> None:
        self._open: set[tuple[int, int]] = set()
        self._moved: dict[tuple[int, bytes], bytes] = {}  # (choice, the upstream's index) -> that of its call by now
        self._sent: dict[tuple[int, bytes], tuple[bytes, bytes]] = {}  # (choice, call index) -> id and name that were sent

    def going_on(self, choice: int, calls: Any) -> str | None:
        """The arguments of a delta that only goes on with one open call, as nearly all do; None where it needs a look."""
        try:
            [call] = calls
            arguments = call["function"]["arguments"]
            index = call["index"]
        except (TypeError, ValueError, KeyError):
            return None
        if len(call) != 2 or len(call["function"]) != 1 or type(arguments) is not str or type(index) is not int:
            return None
        return arguments if (choice, index) in self._open else None

    def mend(self, chunk: Chunk) -> None:
        """Give indexes that are missing; drop ids and names that are empty or repeated; write arguments that are an object as text."""
        calls = chunk.calls()
        mended = [self._mend(chunk.index, call, position) for position, call in enumerate(calls)]
        if any(mended):
            chunk.set_calls(calls)

    def _mend(self, choice: int, call: Members, position: int) -> bool:
        changed = False
        sent = call.get("index", b"")
        if sent[:1] == b'"' and sent[1:-1].isdigit():
            call["index"] = b"%d" % int(sent[1:-1])
            changed = True
        elif not sent.isdigit():
            rest = {key: raw for key, raw in call.items() if key != "index"}
            call.clear()
            call.update({"index": b"%d" % self._index(choice, rest, position), **rest})
            changed = True
        raw = call.get("function", b"null")
        function = jsontext.members(raw) if raw.startswith(b"{") else {}
        call_id, name = call.get("id", b"null"), function.get("name", b"null")
        changed |= self._moves(choice, call, name not in _EMPTY or b'"name"' in call.get("custom", b""))
        sent_id, sent_name = self._sent.get((choice, call["index"]), (b"", b""))
        if "id" in call and (call_id in _EMPTY or sent_id not in _NONE):
            del call["id"]
            changed = True
        # beside a new id the same name is that of another call
        if "name" in function and (name in _EMPTY or (name == sent_name and "id" not in call)):
            del function["name"]
            changed = True
        arguments = function.get("arguments", b'""')
        if not arguments.startswith(b'"'):
            function["arguments"] = b'""' if arguments == b"null" else jsontext.quote(arguments.decode("utf-8", "surrogatepass"))
            changed = True
        if changed and (function or raw.startswith(b"{")):
            call["function"] = jsontext.join(function)
        self._open.add((choice, int(call["index"])))
        new = "id" in call or not sent_name
        self._sent[choice, call["index"]] = (call.get("id", sent_id), function.get("name", sent_name) if new else sent_name)
        return changed

    def _moves(self, choice: int, call: Members, named: bool) -> bool:
        """Give a call the index of its id if that is known, and the next one if another stands at its own: one that is named, with another
        id. (An id that changes without a name is the same call's: some servers make a new one for each delta.)"""
        given, call_id = call["index"], call.get("id", b"null")
        index = self._moved.get((choice, given), given)
        held = self._sent.get((choice, index), (b"", b""))[0]
        if held not in _NONE and call_id not in _NONE and call_id != held:
            known = {sent_id: at for (owner, at), (sent_id, _) in self._sent.items() if owner == choice}
            if named or call_id in known:
                index = known.get(call_id) or b"%d" % (max(map(int, known.values())) + 1)
                self._moved[choice, given] = index
                self._open.discard((choice, int(given)))
        call["index"] = index
        return index != given

    def _index(self, choice: int, call: Members, position: int) -> int:
        """The index of a call that came without: that of its id, the last one's where it has none, else the next."""
        known = [(int(index), sent_id) for (owner, index), (sent_id, _) in self._sent.items() if owner == choice]
        call_id = call.get("id", b"null")
        if call_id in _EMPTY:
            return known[-1][0] if known and not position else position
        return next((index for index, sent_id in known if sent_id == call_id), len(known))
