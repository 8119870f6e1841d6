"""Whole answers of Messages and Responses, where a stream was asked for, as the events that a stream would have brought.

Each member keeps its own bytes. What is no text (signatures, searches, items not known here) stands whole in the event that opens it
or closes it, as those protocols do it. ValueError where the body is no whole answer.
"""

from __future__ import annotations

from typing import Final

from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import render

# Type of a block -> its members that come as deltas: what each is emptied to, and the delta's type.
_BLOCKS: Final = {
    b'"text"': (("text", b'""', "text_delta"),),
    b'"thinking"': (("thinking", b'""', "thinking_delta"), ("signature", b'""', "signature_delta")),
    b'"tool_use"': (("input", b"{}", "input_json_delta"),),
    b'"server_tool_use"': (("input", b"{}", "input_json_delta"),),
}
_MEMBERS: Final = {"input_json_delta": "partial_json", "text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_ENDS: Final = {b'"completed"': "response.completed", b'"incomplete"': "response.incomplete"}
# Type of an item -> the member whose text comes as deltas, and the events' name.
_CALLS: Final = {
    b'"function_call"': ("arguments", "response.function_call_arguments", "arguments"),
    b'"mcp_call"': ("arguments", "response.mcp_call_arguments", "arguments"),
    b'"custom_tool_call"': ("input", "response.custom_tool_call_input", "input"),
    b'"code_interpreter_call"': ("code", "response.code_interpreter_call_code", "code"),
}
_PARTS: Final = {b'"output_text"': ("text", "response.output_text"), b'"refusal"': ("refusal", "response.refusal")}


def message(body: bytes) -> bytes:
    top = jsontext.members(jsontext.strict(body.strip()))
    blocks = [jsontext.members(raw) for raw in jsontext.elements(top.get("content", b""))]
    if top.get("stop_reason", b"null") == b"null":
        raise ValueError("no end")
    said: Members = {key: top[key] for key in ("stop_reason", "stop_sequence") if key in top}
    start: Members = {**top, "content": b"[]", **dict.fromkeys(said, b"null")}
    out = [_event("message_start", message=jsontext.join(start))]
    for at, block in enumerate(blocks):
        index = b"%d" % at
        deltas = [(member, empty, kind) for member, empty, kind in _BLOCKS.get(block.get("type", b""), ()) if member in block]
        cited = block.get("citations", b"") if block.get("citations", b"").startswith(b"[") else b"[]"
        opening: Members = {**block, **{member: empty for member, empty, _ in deltas}}
        if cited != b"[]":
            opening["citations"] = b"[]"
        out.append(_event("content_block_start", index=index, content_block=jsontext.join(opening)))
        for member, empty, kind in deltas:
            if block[member] != empty:
                text = jsontext.quote(block[member].decode("utf-8")) if member == "input" else block[member]
                out.append(_delta(index, kind, _MEMBERS[kind], text))
        out += [_delta(index, "citations_delta", "citation", raw) for raw in jsontext.elements(cited)]
        out.append(_event("content_block_stop", index=index))
    out.append(_event("message_delta", delta=jsontext.join(said), usage=top.get("usage", b"{}")))
    return b"".join([*out, _event("message_stop")])


def response(body: bytes) -> bytes:
    top = jsontext.members(jsontext.strict(body.strip()))
    end = _ENDS.get(top.get("status", b""))
    if top.get("object") != b'"response"' or end is None:
        raise ValueError("no finished response")
    items = [jsontext.members(raw) for raw in jsontext.elements(top.get("output", b""))]
    begun = {**top, "status": b'"in_progress"', "output": b"[]", "usage": b"null"}
    events: list[tuple[str, Members]] = [("response.created", {"response": jsontext.join(begun)})]
    for at, item in enumerate(items):
        place: Members = {"output_index": b"%d" % at}
        own: Members = {"item_id": item["id"], **place} if "id" in item else place
        inner = _of_item(item, own)
        empty: Members = {key: b"[]" for key in ("content", "summary") if item.get(key, b"").startswith(b"[") and inner}
        call = _CALLS.get(item.get("type", b""))
        if call is not None and inner:
            empty[call[0]] = b'""'
        status: Members = {"status": b'"in_progress"'} if "status" in item else {}
        events.append(("response.output_item.added", {**place, "item": jsontext.join({**item, **empty, **status})}))
        events += inner
        events.append(("response.output_item.done", {**place, "item": jsontext.join(item)}))
    events.append((end, {"response": jsontext.join(top)}))
    return b"".join(_event(kind, sequence_number=b"%d" % number, **rest) for number, (kind, rest) in enumerate(events))


def _of_item(item: Members, own: Members) -> list[tuple[str, Members]]:
    call = _CALLS.get(item.get("type", b""))
    if call is not None:
        member, name, last = call
        text = item.get(member, b"")
        return [(f"{name}.delta", {**own, "delta": text}), (f"{name}.done", {**own, last: text})] if text.startswith(b'"') else []
    out: list[tuple[str, Members]] = []
    if item.get("type") == b'"message"' and item.get("content", b"").startswith(b"["):
        for at, raw in enumerate(jsontext.elements(item["content"])):
            out += _part(raw, {**own, "content_index": b"%d" % at})
    elif item.get("type") == b'"reasoning"' and item.get("summary", b"").startswith(b"["):
        for at, raw in enumerate(jsontext.elements(item["summary"])):
            place = {**own, "summary_index": b"%d" % at}
            part = jsontext.members(raw)
            text = part.get("text", b'""')
            out.append(("response.reasoning_summary_part.added", {**place, "part": jsontext.join({**part, "text": b'""'})}))
            out.append(("response.reasoning_summary_text.delta", {**place, "delta": text}))
            out.append(("response.reasoning_summary_text.done", {**place, "text": text}))
            out.append(("response.reasoning_summary_part.done", {**place, "part": raw}))
    return out


def _part(raw: bytes, place: Members) -> list[tuple[str, Members]]:
    part = jsontext.members(raw)
    member, name = _PARTS.get(part.get("type", b""), ("", ""))
    if not member or not part.get(member, b"").startswith(b'"'):
        return [("response.content_part.added", {**place, "part": raw}), ("response.content_part.done", {**place, "part": raw})]
    empty = {**part, member: b'""', **{key: b"[]" for key in ("logprobs", "annotations") if part.get(key, b"").startswith(b"[")}}
    more: Members = {"logprobs": part.get("logprobs", b"[]")} if member == "text" else {}
    notes = jsontext.elements(part["annotations"]) if part.get("annotations", b"").startswith(b"[") else []
    return [
        ("response.content_part.added", {**place, "part": jsontext.join(empty)}),
        (f"{name}.delta", {**place, "delta": part[member], **more}),
        *(
            ("response.output_text.annotation.added", {**place, "annotation_index": b"%d" % at, "annotation": note})
            for at, note in enumerate(notes)
        ),
        (f"{name}.done", {**place, member: part[member], **more}),
        ("response.content_part.done", {**place, "part": raw}),
    ]


def _delta(index: bytes, kind: str, member: str, text: bytes) -> bytes:
    delta = jsontext.join({"type": jsontext.quote(kind), member: text})
    return _event("content_block_delta", index=index, delta=delta)


def _event(kind: str, **rest: bytes) -> bytes:
    return render(jsontext.one_line(jsontext.join({"type": jsontext.quote(kind), **rest})), kind.encode())
