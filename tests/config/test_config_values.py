"""How single values are written, and what each may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ConfigError, loads
from gateway.config.texts import is_loopback, is_secret_header
from gateway.settings import Settings

UPSTREAM = "upstreams: [{name: a, base_url: 'https://api.example.com/v1'}]\n"


def read(text: str, **environ: str) -> Settings:
    return loads(UPSTREAM + text, environ)


def refused(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text if text.startswith("upstreams") else UPSTREAM + text, environ)
    assert len(caught.value.problems) == 1, caught.value
    return caught.value.problems[0].message


def upstream(fields: str, **environ: str) -> str:
    """The message about one wrong field of an upstream."""
    name, url = "" if "name:" in fields else "name: a, ", "" if "base_url:" in fields else "base_url: 'http://x', "
    return refused(f"upstreams: [{{{name}{url}{fields}}}]", **environ)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *(("15", 15.0), ("0.5", 0.5), (".5", 0.5), ("1e2", 100.0), ("1_000", 1000.0), ("15s", 15.0), ("500ms", 0.5)),
        *(("2m", 120.0), ("1h", 3600.0), ("1.5 m", 90.0), ('"20s"', 20.0), ("+5", 5.0), ("!!int 7", 7.0), ('!!int "8"', 8.0)),
    ],
)
def test_a_duration_is_seconds_or_has_a_unit(written: str, seconds: float) -> None:
    assert read(f"heartbeat: {{every: {written}}}").heartbeat.every == seconds


@pytest.mark.parametrize(
    "written",
    [
        *("-1", "-5s", "0", "0s", "3601", "2h", ".nan", ".inf", "-.inf", "1e999", "abc", "5 parsecs", "5d", "s", '""', '"15"'),
        *("[1]", "{a: 1}", "true", "null", "off", "1:30", "0600", "0x10", "1" * 5000, "1m30s", "1 5s", "2026-01-01", "1__0"),
    ],
)
def test_what_is_no_duration_in_the_range_is_refused(written: str) -> None:
    assert refused(f"heartbeat: {{every: {written}}}").startswith(("must be", "cannot be switched off"))


@pytest.mark.parametrize("written", ["off", "Off", "null", "~", "", "no", "false", '"off"'])
def test_off_and_nothing_switch_an_optional_clock_off(written: str) -> None:
    clocks = read(f"clocks: {{silence: {written}, headers: {written}}}").clocks
    assert (clocks.silence, clocks.headers) == (None, None)


@pytest.mark.parametrize("written", ["on", "true", "yes", "never"])
def test_on_is_no_duration(written: str) -> None:
    assert "must be a duration" in refused(f"clocks: {{total: {written}}}")


@pytest.mark.parametrize(
    ("written", "size"),
    [
        *(("65536", 65536), ("64KiB", 65536), ("16 MiB", 2**24), ("1GiB", 2**30), ("64kB", 64_000), ("16MB", 16_000_000)),
        *(("1.5KiB", 1536), ("2048B", 2048), ("16mib", 2**24), ("2e4", 20_000)),
    ],
)
def test_a_size_is_bytes_or_has_a_unit(written: str, size: int) -> None:
    found = read(f"limits: {{request_bytes: {written}}}").limits.request_bytes
    assert found == size
    assert isinstance(found, int)


@pytest.mark.parametrize("written", ["16M", "16k", "-1", "0", "1.5", "1e999", "off", "5s", "1.0001KiB", "100GiB", "true"])
def test_what_is_no_size_in_the_range_is_refused(written: str) -> None:
    refused(f"limits: {{request_bytes: {written}}}")


@pytest.mark.parametrize("written", ["-1", "65536", "80.5", '"80"', "eighty", "true", "null", "8080s", "[80]"])
def test_what_is_no_port_is_refused(written: str) -> None:
    assert refused(f"listen: {{port: {written}}}")


def test_a_number_may_be_read_from_the_environment_and_means_what_it_would_mean_unquoted() -> None:
    settings = read("listen: {port: '${PORT}'}\nclocks: {total: '${TOTAL:-off}', silence: '${QUIET}'}", PORT="81", QUIET="90")
    assert (settings.listen.port, settings.clocks.total, settings.clocks.silence) == (81, None, 90.0)


def test_a_key_from_the_environment_is_text_whatever_it_holds() -> None:
    for key in ("12345", "true", "null", "1e5", "${X}", "[a]", "a:b", "#a"):
        settings = loads("upstreams: [{name: a, base_url: 'http://x', api_key: '${KEY}'}]", {"KEY": key})
        assert settings.upstreams[0].api_key == key


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("${A}", "1"),
        ("x${A}y${B:-2}z", "x1y2z"),
        ("${A:-9}", "1"),
        ("${EMPTY:-9}", "9"),
        ("$${A}", "${A}"),
        ("$A", "$A"),
        ("$$A", "$$A"),
        ("a$", "a$"),
        ("${B:-a-b:-c}", "a-b:-c"),
    ],
)
def test_references_to_the_environment(written: str, found: str) -> None:
    settings = loads(f"upstreams: [{{name: a, base_url: 'http://x', models: ['{written}']}}]", {"A": "1", "EMPTY": ""})
    assert settings.upstreams[0].models == (found,)


def test_a_variable_that_is_not_set_is_named_with_the_path_and_the_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        loads("upstreams:\n- name: a\n  base_url: http://x\n  api_key: ${MY_KEY}\n", {})
    assert caught.value.lines() == [
        "<text>:4: upstreams[0].api_key: the environment variable MY_KEY is not set: set it, or write ${MY_KEY:-default}"
    ]


@pytest.mark.parametrize("written", ["${}", "${A", "${1A}", "${A-b}", "${A B}"])
def test_a_broken_reference_is_refused(written: str) -> None:
    assert "`${` is not followed" in upstream(f"api_key: '{written}'", A="x")


@pytest.mark.parametrize("key", ["", "sk 5", "key\n", "\tkey", "kéy", "key\x00", "k" * 9000])
def test_a_key_that_was_copied_badly_is_refused_without_showing_it(key: str) -> None:
    message = upstream("api_key: '${KEY}'", KEY=key)
    assert len(key) < 2 or key not in message


def test_an_api_key_that_is_null_lets_the_clients_own_through() -> None:
    assert loads("upstreams: [{name: a, base_url: 'http://x', api_key: null}]", {}).upstreams[0].api_key is None


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:8000", "https://api.openai.com/v1", "https://api.openai.com/v1/", "http://[::1]:8000/v1"),
        *("https://x.openai.azure.com/openai/deployments/a%20b", "http://host_1.internal", "HTTPS://API.EXAMPLE.COM"),
    ],
)
def test_a_base_url_is_kept_as_it_was_written(url: str) -> None:
    assert loads(f"upstreams: [{{name: a, base_url: '{url}'}}]", {}).upstreams[0].base_url == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("api.openai.com", "must begin with http"),
        ("ftp://x", "must begin with http"),
        ("//x", "must begin with http"),
        ("http://", "needs a host"),
        ("http:///v1", "needs a host"),
        ("http://:8080", "needs a host"),
        ("http://exämple.com", "needs a host"),
        ("http://a..b", "needs a host"),
        ("http://a\\b", "needs a host"),
        ("http://[zz]", "is no URL"),
        ("http://x:99999", "is no URL"),
        ("http://x:0", "is no URL"),
        ("http://x:port", "is no URL"),
        ("http://[::1", "is no URL"),
        ("http://me:secret@x", "must not carry credentials"),
        ("http://me@x", "must not carry credentials"),
        ("http://x?api-version=1", "without ? or #"),
        ("http://x/#a", "without ? or #"),
        ("http://x/?", "without ? or #"),
        ("http://x/a b", "blank"),
        ("http://x/ä", "must be ASCII"),
        ("", "must begin with http"),
    ],
)
def test_what_is_no_base_url_is_refused(url: str, said: str) -> None:
    message = upstream(f"base_url: '{url}'")
    assert said in message
    assert "secret" not in message


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "ä", "x" * 65, "a\\nb"])
def test_a_name_that_is_no_label_is_refused(name: str) -> None:
    assert "must be a name" in upstream(f'name: "{name}"')
    assert "must be a name" in upstream(f'provider: "{name}"')


@pytest.mark.parametrize(
    ("header", "said"),
    [
        *((f"{name}: x", "belongs to") for name in ("Connection", "TE", "transfer-encoding", "Host", "content-length", "Upgrade")),
        *((f"{name}: x", "belongs to") for name in ("keep-alive", "trailer", "proxy-authorization", "Accept-Encoding")),
        ('x-a: "a\\r\\nx-evil: b"', "line end"),
        ('x-a: "a\\n"', "line end"),
        ('x-a: "a\\0"', "visible ASCII"),
        ('x-a: " a"', "visible ASCII"),
        ('x-a: ""', "visible ASCII"),
        ("x-a: é", "visible ASCII"),
        ("x-a: 5", "must be text"),
        ("x-a: [b]", "single value"),
        ("x-a: null", "must be text"),
        ('"x a": b', "not a header's name"),
        ('"": b', "not a header's name"),
        ('"x\\r\\ny": b', "not a header's name"),
        ("x-a: b, x-a: c", "given twice"),
        ("x-a: b, X-A: c", "given twice"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(header: str, said: str) -> None:
    assert said.removeprefix("not ") in upstream(f"headers: {{{header}}}")


def test_headers_keep_their_order_and_become_lower_case() -> None:
    text = "upstreams: [{name: a, base_url: 'http://x', headers: {X-Team: blue green, accept: '*/*', x-n: '${N}'}}]"
    assert loads(text, {"N": "5"}).upstreams[0].headers == (("x-team", "blue green"), ("accept", "*/*"), ("x-n", "5"))


def test_headers_that_are_a_list_are_refused() -> None:
    assert "`name: value`" in upstream("headers: [a]")


@pytest.mark.parametrize("models", ["[a, a]", "['']", "['  ']", '["a\\nb"]', "[5]", "[[a]]", "a", "{a: b}", f"[{'x' * 201}]"])
def test_what_is_no_list_of_models_is_refused(models: str) -> None:
    assert upstream(f"models: {models}")


def test_models_may_look_like_dates_and_hold_slashes() -> None:
    text = "upstreams: [{name: a, base_url: 'http://x', models: [2024-01-01, meta/llama-3, 'o1', 模型]}]"
    assert loads(text, {}).upstreams[0].models == ("2024-01-01", "meta/llama-3", "o1", "模型")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::", "localhost", "gateway.internal", "fe80::1%eth0"])  # noqa: S104
def test_hosts_to_listen_on(host: str) -> None:
    assert read(f"listen: {{host: '{host}'}}").listen.host == host


@pytest.mark.parametrize("host", ["", "http://x", "127.0.0.1:80", "[::1]", "a b", "a/b", "-a", "x" * 300, "::1%\\n"])
def test_what_is_no_host_is_refused(host: str) -> None:
    assert "must be an address or a host name" in refused(f'listen: {{host: "{host}"}}')


def test_choices_come_with_all_that_may_be_said() -> None:
    assert refused("pacing: {mode: smoth}") == "must be smooth or raw; did you mean smooth?"
    assert refused("log: {level: 3}") == "must be debug, info, warning or error"
    assert refused("overflow: off") == "must be block or drop_oldest"


@pytest.mark.parametrize(("written", "found"), [("true", True), ("yes", True), ("on", True), ("false", False), ("'${F}'", True)])
def test_switches(written: str, found: bool) -> None:
    assert read(f"listen: {{allow_public: {written}}}", F="True").listen.allow_public is found


@pytest.mark.parametrize("written", ['"true"', "1", "null", "maybe", "[true]"])
def test_what_is_no_switch_is_refused(written: str) -> None:
    assert refused(f"listen: {{allow_public: {written}}}")


def test_a_ca_file_starts_from_the_configurations_folder_and_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    (tmp_path / "folder").mkdir()
    text = "upstreams: [{name: a, base_url: 'http://x', ca_file: %s}]"
    assert loads(text % "ca.pem", {}, folder=tmp_path).upstreams[0].ca_file == str((tmp_path / "ca.pem").resolve())
    for wrong in ("none.pem", "folder", '"a\\0b"', "~nobody-of-this-name/x", "x" * 5000, '"\\uD800"'):
        with pytest.raises(ConfigError, match=r"upstreams\[0\]\.ca_file: is not a file"):
            loads(text % wrong, {}, folder=tmp_path)


def test_which_addresses_are_this_machine_only() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST."]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", ""]))  # noqa: S104


def test_which_headers_are_secrets() -> None:
    secret = [
        "Authorization",
        "x-api-key",
        "api-key",
        "cookie",
        "X-Goog-Api-Key",
        "x-auth",
        "helicone-auth",
        "x-my-token",
        "X-Secret",
    ]
    assert all(map(is_secret_header, secret))
    assert not any(map(is_secret_header, ["accept", "openai-organization", "x-team", "user-agent", "anthropic-version"]))
