"""What a bench asks and what it refuses to begin."""

from __future__ import annotations

import json

import pytest

from gateway.bench.plan import DEFAULT_PROMPT, Plan, PlanError, Target, check, fields_of, prompts_of, url_of


def plan(url: str = "http://127.0.0.1:9101/v1/chat/completions", **changes: object) -> Plan:
    values: dict[str, object] = {
        "targets": (Target("direct", url),),
        "api": "chat",
        "model": "m",
        "prompts": (DEFAULT_PROMPT,),
        "requests": 10,
        "concurrency": 2,
        "most_tokens": None,
        "patience_s": 1.0,
        "deadline_s": 1.0,
        "fields": {},
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://127.0.0.1:9101", "http://127.0.0.1:9101/v1/chat/completions"),
        ("http://127.0.0.1:9101/", "http://127.0.0.1:9101/v1/chat/completions"),
        ("https://api.example.com/v1/", "https://api.example.com/v1/chat/completions"),
        ("https://example.com/v1beta/openai", "https://example.com/v1beta/openai/chat/completions"),
        ("http://[::1]:80", "http://[::1]:80/v1/chat/completions"),
        ("HTTP://Example.com/v1/v1/", "http://example.com/v1/chat/completions"),
        ("https://example.com/v1/chat/completions", "https://example.com/v1/chat/completions"),
        ("https://example.com/openai/v1/responses", "https://example.com/openai/v1/chat/completions"),
        ("http://bücher.example/ü b%20c", "http://xn--bcher-kva.example/%C3%BC%20b%20c/chat/completions"),
    ],
)
def test_a_base_url_with_or_without_v1_leads_to_the_api(base: str, url: str) -> None:
    assert url_of(base, "chat") == url


@pytest.mark.parametrize(
    "base",
    [
        *("", "api.example.com", "ftp://x", "http://", "http://u:p@x", "http://:u:p@x", "http://@x", "http://x?key=1", "http://x:99999"),
        *("http://x:0", "http://[::1", "http://[x]", "http://a b", "http://x\r\nu:p", "http://" + "a" * 64, "http://\udcff"),
    ],
)
def test_what_is_no_base_url_is_refused_without_being_shown(base: str) -> None:
    with pytest.raises(PlanError, match="URL") as refused:
        url_of(base, "chat")
    assert "u:p" not in str(refused.value)
    assert "key=1" not in str(refused.value)


def test_many_requests_to_another_machine_are_only_made_on_demand() -> None:
    away = plan("https://api.example.com/v1/chat/completions", requests=101)
    with pytest.raises(PlanError, match=r"101 requests to api\.example\.com can cost money"):
        check(away, sure=False)
    check(away, sure=True)
    check(plan("https://api.example.com/v1/chat/completions", requests=100), sure=False)
    for here in ("127.0.0.1", "localhost", "[::1]", "127.9.9.9"):
        check(plan(f"http://{here}:1/v1/chat/completions", requests=100_000), sure=False)


def test_prompts_come_in_turn_from_lines_and_objects() -> None:
    prompts = prompts_of(b'first\n\n{"prompt": "sec\\nond"}\n', "p.txt")
    assert prompts == ("first", "sec\nond")
    asked = [json.loads(plan(prompts=prompts).body(number))["messages"][0]["content"] for number in range(3)]
    assert asked == ["first", "sec\nond", "first"]


@pytest.mark.parametrize(
    ("data", "says"), [(b"", "no prompt"), (b"\n \n", "no prompt"), (b'a\n{"promt": 1}', "p.txt:2:"), (b"{", "p.txt:1:")]
)
def test_a_prompt_file_that_is_none_is_named_with_its_line(data: bytes, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        prompts_of(data, "p.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_prompts_are_read_in_the_encodings_that_editors_and_shells_write(encoding: str) -> None:
    assert prompts_of("größer\r\nx\u2028y\r\n".encode(encoding), "p") == ("größer", "x\u2028y")


@pytest.mark.parametrize("data", [b"caf\xe9", b"\xff\xfeh", b"a\n" + b"\x80"])
def test_prompts_in_no_known_encoding_are_refused_and_not_sent_as_something_else(data: bytes) -> None:
    with pytest.raises(PlanError, match=r"p\.txt: is not UTF-8"):
        prompts_of(data, "p.txt")


def test_a_prompt_file_is_bounded_and_nesting_breaks_nothing() -> None:
    with pytest.raises(PlanError, match="larger"):
        prompts_of(bytes(64 * 2**20 + 1), "p")
    with pytest.raises(PlanError, match="p:1:"):
        prompts_of(b'{"prompt":' + b"[" * 100_000, "p")


def test_the_key_goes_where_each_api_looks_for_it() -> None:
    assert fields_of(" sk-k\n", "chat", ()) == {"authorization": "Bearer sk-k"}
    assert fields_of("sk-k", "messages", ())["x-api-key"] == "sk-k"
    assert fields_of("sk-k", "chat", (("authorization", "mine"),)) == {"authorization": "mine"}
    assert fields_of(None, "chat", (("a", "b"),)) == {"a": "b"}
    for odd in ("sk-\u2713", "sk-a\r\nx: 1", "sk-a\x00"):
        with pytest.raises(PlanError, match="no header field") as refused:
            fields_of(odd, "chat", ())
        assert "sk-" not in str(refused.value)


@pytest.mark.parametrize(
    ("api", "limit"), [("chat", "max_completion_tokens"), ("responses", "max_output_tokens"), ("messages", "max_tokens")]
)
def test_each_api_is_asked_in_its_own_words(api: str, limit: str) -> None:
    body = json.loads(plan(api=api, most_tokens=7).body(0))
    assert body["stream"] is True
    assert body[limit] == 7
    assert ("input" in body) == (api == "responses")
    assert (body.get("stream_options") == {"include_usage": True}) == (api == "chat")
