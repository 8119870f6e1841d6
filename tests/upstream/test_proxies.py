"""Which requests go through a proxy."""

from __future__ import annotations

import pytest

from gateway.upstream.proxies import Proxies, ProxyProblem

BOTH = {"HTTP_PROXY": "http://plain.proxy:3128", "HTTPS_PROXY": "http://tls.proxy:3128"}


def test_each_scheme_has_its_own_and_all_proxy_stands_in() -> None:
    proxies = Proxies(BOTH)
    assert proxies.find("http", "upstream.test", 80) == "http://plain.proxy:3128"
    assert proxies.find("https", "upstream.test", 443) == "http://tls.proxy:3128"
    both = Proxies({"ALL_PROXY": "socks5://s:1080", "HTTPS_PROXY": "http://tls.proxy:3128"})
    assert both.find("http", "upstream.test", 80) == "socks5://s:1080"
    assert both.find("https", "upstream.test", 443) == "http://tls.proxy:3128"


def test_without_variables_there_is_none() -> None:
    assert not Proxies({"NO_PROXY": "*", "HTTP_PROXY": ""})
    assert Proxies({}).find("https", "upstream.test", 443) is None


def test_the_lower_case_name_comes_first() -> None:
    assert Proxies({**BOTH, "https_proxy": "http://lower:1"}).find("https", "upstream.test", 443) == "http://lower:1"


def test_a_cgi_process_ignores_what_a_clients_header_could_have_set() -> None:
    assert Proxies({**BOTH, "REQUEST_METHOD": "GET"}).find("http", "upstream.test", 80) is None


def test_a_value_without_a_scheme_means_http() -> None:
    assert Proxies({"HTTPS_PROXY": "proxy:3128"}).find("https", "upstream.test", 443) == "http://proxy:3128"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "a.localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_is_never_reached_through_a_proxy(host: str) -> None:
    assert Proxies(BOTH).find("http", host, 8000) is None


@pytest.mark.parametrize(
    ("entry", "host", "port", "exempt"),
    [
        ("*", "anything.test", 80, True),
        ("upstream.test", "upstream.test", 80, True),
        ("upstream.test", "UPSTREAM.test", 80, True),
        ("upstream.test", "upstream.test.", 80, True),
        ("upstream.test", "api.upstream.test", 80, True),
        (".upstream.test", "api.upstream.test", 80, True),
        ("*.upstream.test", "api.upstream.test", 80, True),
        ("upstream.test", "notupstream.test", 80, False),
        ("upstream.test:8000", "upstream.test", 8000, True),
        ("upstream.test:8000", "upstream.test", 80, False),
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "11.1.2.3", 80, False),
        ("10.0.0.0/8", "ten.test", 80, False),
        ("192.168.1.5", "192.168.1.5", 80, True),
        ("192.168.1.5:81", "192.168.1.5", 80, False),
        ("fd00::/8", "fd00::7", 80, True),
        ("[fd00::7]", "fd00::7", 80, True),
        ("[fd00::7]:81", "fd00::7", 81, True),
        ("a.test, upstream.test ,,", "upstream.test", 80, True),
    ],
)
def test_no_proxy_exempts(entry: str, host: str, port: int, exempt: bool) -> None:
    assert (Proxies({**BOTH, "NO_PROXY": entry}).find("http", host, port) is None) is exempt


@pytest.mark.parametrize("value", ["ftp://u:hunter2@proxy", "http://", "http://u:hunter2@proxy:port", "http://[::1"])
def test_a_value_that_is_no_proxy_is_named_without_its_secret(value: str) -> None:
    with pytest.raises(ProxyProblem, match="HTTPS_PROXY") as raised:
        Proxies({"HTTPS_PROXY": value}).find("https", "upstream.test", 443)
    assert "hunter2" not in str(raised.value)
