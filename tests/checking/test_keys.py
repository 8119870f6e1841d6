"""Whose key, whose address: mistakes that are seen before a key is sent."""

from __future__ import annotations

import pytest

from gateway.checking.keys import maker_of, mismatch, owner_of


@pytest.mark.parametrize(
    ("key", "maker"),
    [
        ("sk-ant-api03-x", "Anthropic"),
        ("sk-or-v1-x", "OpenRouter"),
        ("sk-proj-x", "OpenAI"),
        ("gsk_x", "Groq"),
        ("AIzaSyX", "Google"),
        ("sk-1234", None),  # many providers' keys begin so
        ("", None),
    ],
)
def test_keys_of_a_known_form(key: str, maker: str | None) -> None:
    assert maker_of(key) == maker


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("https://api.openai.com/v1", "OpenAI"),
        ("https://eu.api.openai.com", "OpenAI"),
        ("https://api.anthropic.com", "Anthropic"),
        ("https://api.x.ai/v1", "xAI"),
        ("https://openai.com.example.org/v1", None),
        ("https://notx.ai/v1", None),
        ("http://127.0.0.1:8000/v1", None),
    ],
)
def test_addresses_of_known_providers(url: str, owner: str | None) -> None:
    assert owner_of(url) == owner


def test_a_key_of_one_provider_with_the_address_of_another_is_told_without_the_key() -> None:
    said = mismatch("sk-ant-secret", "https://api.openai.com/v1")
    assert said is not None
    assert "one of Anthropic's" in said
    assert "OpenAI's" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("key", "url"),
    [
        ("sk-1234", "https://api.openai.com"),
        ("sk-ant-x", "https://api.anthropic.com"),
        ("sk-ant-x", "http://127.0.0.1:4000/v1"),
        ("sk-ant-x", "https://gateway.example.com/anthropic"),
    ],
)
def test_what_may_be_right_is_not_called_wrong(key: str, url: str) -> None:
    assert mismatch(key, url) is None
