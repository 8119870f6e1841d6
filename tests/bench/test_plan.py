"""What a bench asks and what it refuses to begin."""

from __future__ import annotations

import json

import pytest

from gateway.bench.plan import DEFAULT_PROMPT, Plan, PlanError, Target, check, prompts_of, url_of


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
    ],
)
def test_a_base_url_with_or_without_v1_leads_to_the_api(base: str, url: str) -> None:
    assert url_of(base, "chat") == url


@pytest.mark.parametrize("base", ["", "api.example.com", "ftp://x", "http://", "http://u:p@x", "http://x?key=1", "http://x:99999"])
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


@pytest.mark.parametrize(
    ("api", "limit"), [("chat", "max_completion_tokens"), ("responses", "max_output_tokens"), ("messages", "max_tokens")]
)
def test_each_api_is_asked_in_its_own_words(api: str, limit: str) -> None:
    body = json.loads(plan(api=api, most_tokens=7).body(0))
    assert body["stream"] is True
    assert body[limit] == 7
    assert ("input" in body) == (api == "responses")
    assert (body.get("stream_options") == {"include_usage": True}) == (api == "chat")
