"""What is no stream: models, embeddings, errors, statistics, odd requests."""

from __future__ import annotations

import base64
import gzip
import json
import math
import struct
import zlib
from typing import Any

import pytest
import zstandard

from gateway.simulator.app import Simulator
from gateway.simulator.scenarios import TABLE
from gateway.simulator.stats import LOG_ENTRIES

from .asking import PATHS, VirtualTime, ask, request

OPENAI = [dialect for dialect in PATHS if dialect != "messages"]
ANTHROPIC = {"anthropic-version": "2023-06-01"}


def test_the_models_are_the_scenarios() -> None:
    listed = ask("/v1/models", method="GET").json()
    assert listed["object"] == "list"
    assert set(TABLE) <= {model["id"] for model in listed["data"]}
    assert all(model["object"] == "model" for model in listed["data"])
    assert ask("/v1/models/silent-7", method="GET").json()["id"] == "silent-7"
    assert ask("/v1/models/nope", method="GET").status == 404


def test_the_models_have_anthropics_shape_for_its_clients() -> None:
    listed = ask("/v1/models", method="GET", headers=ANTHROPIC).json()
    assert listed["has_more"] is False
    assert (listed["first_id"], listed["last_id"]) == (listed["data"][0]["id"], listed["data"][-1]["id"])
    assert all(model["type"] == "model" for model in listed["data"])


def embed(**extra: Any) -> list[Any]:
    answer = ask("/v1/embeddings", {"model": "text-embedding-3-small", **extra}).json()
    assert [entry["index"] for entry in answer["data"]] == list(range(len(answer["data"])))
    return [entry["embedding"] for entry in answer["data"]]


def test_embeddings_are_unit_vectors_that_depend_on_nothing_but_the_input() -> None:
    one, two, again = embed(input=["one", "two", "one"])
    assert one == again != two
    assert len(one) == 1536
    assert math.hypot(*one) == pytest.approx(1.0)
    assert embed(input="one") == [one]
    assert len(embed(input=[1, 2, 3])) == 1
    assert len(embed(input=[[1, 2], [3]], dimensions=8)[1]) == 8


def test_embeddings_in_base64_are_the_same_floats() -> None:
    [floats] = embed(input="one", dimensions=64)
    [encoded] = embed(input="one", dimensions=64, encoding_format="base64")
    assert list(struct.unpack("<64f", base64.b64decode(encoded))) == pytest.approx(floats)


@pytest.mark.parametrize("extra", [{"input": []}, {}, {"input": "x", "dimensions": 0}, {"input": "x", "encoding_format": "hex"}])
def test_embeddings_that_cannot_be_are_refused(extra: dict[str, Any]) -> None:
    assert ask("/v1/embeddings", {"model": "text-embedding-3-small", **extra}).status == 400


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", OPENAI)
def test_an_unknown_model_is_a_404_that_lists_the_known_ones(dialect: str, stream: bool) -> None:
    answer = ask(PATHS[dialect], request(dialect, "gpt-4o", stream=stream))
    assert answer.status == 404
    error = answer.json()["error"]
    assert (error["code"], error["param"], error["type"]) == ("model_not_found", "model", "invalid_request_error")
    assert all(name in error["message"] for name in TABLE)


@pytest.mark.parametrize("dialect", OPENAI)
def test_rate_limited_is_a_429_with_retry_after(dialect: str) -> None:
    answer = ask(PATHS[dialect], request(dialect, "rate-limited", stream=True))
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("model", "status", "kind"),
    [("rate-limited", 429, "rate_limit_error"), ("overloaded", 529, "overloaded_error"), ("nope", 404, "not_found_error")],
)
def test_messages_errors_have_anthropics_shape(model: str, status: int, kind: str) -> None:
    answer = ask(PATHS["messages"], request("messages", model, stream=True))
    body = answer.json()
    assert answer.status == status
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


def test_overloaded_is_a_503() -> None:
    assert ask(PATHS["chat"], request("chat", "overloaded")).status == 503


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"model": "steady"', 400),
        (b"[]", 400),
        (b"\xff", 400),
        ({"messages": [{}]}, 400),
        ({"model": "steady"}, 400),
        ({"model": "steady", "messages": []}, 400),
        ({"model": "steady", "messages": [{}], "stream": "yes"}, 400),
        ({"model": "steady", "messages": [{}], "n": 1000}, 400),
        ({"model": "instant", "messages": ["odd", {"role": "user", "content": [None, {"text": 3}]}]}, 200),
        ({"model": "instant", "messages": [{}], "tools": "odd", "tool_choice": {"function": 1}, "stream_options": "odd"}, 200),
    ],
)
def test_odd_bodies_are_refused_or_taken_and_never_an_internal_error(body: Any, status: int) -> None:
    answer = ask(PATHS["chat"], body)
    assert answer.status == status
    assert answer.complete
    if status >= 400:
        assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("speed", ["0", "-1", "fast", "nan", "inf"])
def test_an_impossible_speed_is_refused(speed: str) -> None:
    assert ask(PATHS["chat"], request("chat", "steady"), {"x-simulate-speed": speed}).status == 400


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstandard.compress), ("identity", bytes)]
)
def test_compressed_requests_are_read(encoding: str, pack: Any) -> None:
    raw = pack(json.dumps(request("chat", "instant")).encode())
    assert ask(PATHS["chat"], raw, {"content-encoding": encoding}).status == 200
    assert ask(PATHS["chat"], b"\x00" + raw[1:], {"content-encoding": encoding}).status == 400
    assert ask(PATHS["chat"], raw, {"content-encoding": "br"}).status == 415


def test_paths_and_methods_that_are_not_there_are_told() -> None:
    assert ask("/v1/files", {}).status == 404
    assert ask(PATHS["chat"], method="GET").status == 405
    assert ask("/v1/models", {}).status == 405
    assert ask(PATHS["responses"], method="GET", headers={"upgrade": "websocket"}).status == 426
    assert set(ask("/", method="GET").json()) == set(TABLE)


def test_a_stream_has_the_providers_headers() -> None:
    answer = ask(PATHS["chat"], request("chat", "instant", stream=True), {"x-request-id": "mine"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-request-id"] == "mine"
    assert "x-ratelimit-remaining-requests" in answer.headers
    anthropic = ask(PATHS["messages"], request("messages", "instant", stream=True))
    assert anthropic.headers["request-id"].startswith("req_")


def test_statistics_count_requests_and_keep_the_last_of_them() -> None:
    time = VirtualTime()
    app = Simulator(time.clock, time.sleep)
    for number in range(LOG_ENTRIES + 3):
        ask(PATHS["chat"], request("chat", "instant", stream=True), {"x-request-id": f"r{number}"}, app=app, time=time)
    ask(PATHS["chat"], request("chat", "rate-limited"), app=app, time=time)
    stats = ask("/_sim/stats", method="GET", app=app, time=time).json()
    assert (stats["requests"], stats["finished"], stats["cancelled"], stats["active"]) == (LOG_ENTRIES + 4, LOG_ENTRIES + 4, 0, 0)
    assert len(stats["log"]) == LOG_ENTRIES
    assert stats["log"][0]["request_id"] == "r4"
    entry = stats["log"][-2]
    assert (entry["model"], entry["stream"], entry["status"], entry["outcome"], entry["writes"]) == ("instant", True, 200, "finished", 1)
    assert entry["ended"] - entry["started"] == pytest.approx(0.05)
    assert stats["log"][-1]["status"] == 429
