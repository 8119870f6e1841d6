"""What `--print-config` prints: everything in force, no secrets, and it loads again."""

from __future__ import annotations

from dataclasses import replace

import yaml

from gateway.config import from_upstream, loads, show, warnings
from gateway.config.schema import leaves
from gateway.settings import Settings, Upstream

KEYED = """\
upstreams:
  - name: a
    base_url: https://api.example.com/v1
    api_key: sk-very-secret
    headers: {x-api-key: also-secret, Cookie: crumbs-secret, x-team: blue}
"""


def test_secrets_are_hidden_and_the_rest_is_shown() -> None:
    shown = show(loads(KEYED, {}))
    assert "secret" not in shown.replace("Secrets are shown as ***", "")
    tree = yaml.safe_load(shown)
    assert tree["upstreams"][0]["api_key"] == "***"
    assert tree["upstreams"][0]["headers"] == {"x-api-key": "***", "cookie": "***", "x-team": "blue"}


def test_userinfo_and_query_of_an_url_that_code_made_are_left_out() -> None:
    settings = Settings(upstreams=(Upstream("a", "https://me:secret@example.com:444/v1?key=secret#secret"),))
    assert yaml.safe_load(show(settings))["upstreams"][0]["base_url"] == "https://example.com:444/v1"


def test_every_setting_is_shown() -> None:
    tree = yaml.safe_load(show(from_upstream("http://127.0.0.1:1")))
    for path, _ in leaves():
        place = tree
        for part in path.replace("[]", ".0").split("."):
            if place == []:  # none by default, so that there is nothing to show of one
                break
            place = place[int(part) if part == "0" else part]


def test_a_clock_that_is_off_is_shown_as_off() -> None:
    assert yaml.safe_load(show(from_upstream("http://x")))["clocks"]["total"] == "off"


def test_what_looks_like_a_reference_loads_again_as_it_was() -> None:
    base = from_upstream("http://x")
    settings = replace(base, upstreams=(Upstream("a", "http://x", models=("${HOME}", "$${A}", "yes", "1", "${")),))
    assert loads(show(settings), {"HOME": "wrong"}) == settings


def test_a_hidden_key_that_is_loaded_again_is_warned_about() -> None:
    assert warnings(loads(KEYED, {})) == ()
    again = warnings(loads(show(loads(KEYED, {})), {}))
    assert len(again) == 1
    assert "upstreams[0]" in again[0]
    assert "--print-config" in again[0]
