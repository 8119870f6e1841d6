"""Where settings come from, which source is above which, and what may not be listened on with a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ConfigError, Overrides, from_upstream, load, loads, warnings
from gateway.settings import Listen, Log, Settings, Upstream

KEYED = "upstreams: [{name: a, base_url: 'http://x', api_key: k}]\n"
UNKEYED = "upstreams: [{name: a, base_url: 'http://x'}]\n"
EVERYWHERE = "0.0.0.0"  # noqa: S104


def test_an_url_alone_gives_the_defaults_and_no_key() -> None:
    assert from_upstream("https://api.openai.com") == Settings(upstreams=(Upstream("default", "https://api.openai.com"),))


def test_a_bad_url_is_told_with_its_flag() -> None:
    with pytest.raises(ConfigError) as caught:
        from_upstream("api.openai.com")
    assert str(caught.value).startswith("--upstream: must begin with http:// or https://")


def test_a_bad_host_is_told_with_its_flag() -> None:
    with pytest.raises(ConfigError, match="--host: must be an address"):
        from_upstream("http://x", Overrides(host="a b"))
    with pytest.raises(ConfigError, match="--host: must be an address"):
        loads(UNKEYED, {}, Overrides(host="a b"))


def test_the_command_line_is_above_the_file() -> None:
    text = UNKEYED + "listen: {host: 127.0.0.2, port: 1, keep_alive: 9}\nlog: {level: error, format: text}\n"
    assert loads(text, {}).listen == Listen("127.0.0.2", 1, 9.0)
    settings = loads(text, {}, Overrides(host="::1", port=0, log_level="debug"))
    assert (settings.listen, settings.log) == (Listen("::1", 0, 9.0), Log("debug", "text"))


def test_a_file_is_read_with_its_environment(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("upstreams: [{name: a, base_url: 'http://x', api_key: '${K}'}]")
    assert load(path, {"K": "v"}).upstreams[0].api_key == "v"


@pytest.mark.parametrize("credential", ["api_key: k", "headers: {x-api-key: k}", "headers: {Authorization: Bearer k}"])
def test_a_key_of_its_own_and_a_public_address_are_refused_together(credential: str) -> None:
    text = f"upstreams: [{{name: a, base_url: 'http://x', {credential}}}]\nlisten:\n  host: {EVERYWHERE}\n"
    with pytest.raises(ConfigError) as caught:
        loads(text, {})
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("listen.host", 3)
    assert "listen.allow_public: true" in problem.message


def test_the_same_is_refused_where_the_command_line_opens_it() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(KEYED, {}, Overrides(host=EVERYWHERE))
    assert caught.value.problems[0].path == "--host"


def test_the_command_line_may_close_what_the_file_opens() -> None:
    assert loads(KEYED + f"listen: {{host: {EVERYWHERE}}}", {}, Overrides(host="127.0.0.1")).listen.host == "127.0.0.1"


def test_in_so_many_words_it_is_allowed_and_warned_about() -> None:
    settings = loads(KEYED + f"listen: {{host: {EVERYWHERE}, allow_public: true}}", {})
    (warning,) = warnings(settings)
    assert "uses the keys of a" in warning


def test_without_a_key_any_address_is_fine() -> None:
    settings = loads(UNKEYED + f"listen: {{host: {EVERYWHERE}}}", {})
    assert warnings(settings) == ()
    assert warnings(from_upstream("http://x", Overrides(host=EVERYWHERE))) == ()


def test_a_public_address_is_not_complained_about_where_the_permission_was_not_understood() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(KEYED + f"listen: {{host: {EVERYWHERE}, allow_public: sure}}", {})
    assert [problem.path for problem in caught.value.problems] == ["listen.allow_public"]


def test_a_credential_that_would_go_to_two_providers_is_warned_of() -> None:
    two = "upstreams: [{name: a, base_url: 'http://x/v1'}, {name: b, base_url: 'http://y/v1'%s}]"
    (warning,) = warnings(loads(two % "", {}))
    assert "a, b have no key of their own" in warning
    assert warnings(loads(two % ", api_key: k", {})) == ()
    assert warnings(loads(two.replace("http://y", "http://x") % "", {})) == (), "one provider, two paths"
