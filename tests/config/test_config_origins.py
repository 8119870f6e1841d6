"""Origins of web pages are compared with what browsers send, so they are held to that form."""

from __future__ import annotations

import pytest

from gateway.config import ConfigError, loads

FILE = "upstreams: [{{name: a, base_url: 'http://127.0.0.1:1'}}]\nlisten: {{cors_origins: ['{}']}}\n"


def origins(text: str) -> tuple[str, ...]:
    return loads(FILE.format(text), {}).listen.cors_origins


@pytest.mark.parametrize(
    "text", ["*", "null", "http://localhost:5173", "https://chat.example.com", "app://obsidian.md", "http://[::1]:3000"]
)
def test_an_origin_is_taken_as_it_is(text: str) -> None:
    assert origins(text) == (text,)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("HTTPS://Chat.Example.com", "https://chat.example.com"),
        ("https://chat.example.com:443", "https://chat.example.com"),
        ("http://localhost:80", "http://localhost"),
    ],
)
def test_it_is_brought_into_the_form_that_browsers_send(text: str, sent: str) -> None:
    assert origins(text) == (sent,)


@pytest.mark.parametrize(
    "text",
    ["chat.example.com", "https://chat.example.com/", "https://chat.example.com/app", "https://u:secret@chat.example.com", "https://*.example.com",
     "http://localhost:99999", "http://", "https://chat.example.com?x", "https://gr\u00fc\u00dfe.example", ""],
)  # fmt: skip
def test_what_no_browser_sends_is_a_problem_that_shows_the_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listen\.cors_origins") as raised:
        origins(text)
    assert "must be a page's origin" in str(raised.value)
    assert "secret" not in str(raised.value)
