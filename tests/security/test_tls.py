"""Certificates are always checked: there is no setting and no variable that switches it off."""

from __future__ import annotations

import dataclasses
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway import settings as values
from gateway.upstream.tls import context_factory
from support import plays
from support.client import ask
from support.gateway import serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

SOURCE = Path(values.__file__).parent


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_for(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.mark.parametrize("names", [("127.0.0.1",), ("other.example",)], ids=["an unknown authority", "another name"])
async def test_a_certificate_that_is_not_right_gets_no_request(names: tuple[str, ...], authority: trustme.CA, tmp_path: Path) -> None:
    ca_file = None
    if names == ("other.example",):  # its authority is trusted: the name alone is wrong
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        ca_file = str(tmp_path / "ca.pem")
    async with ScriptedUpstream(plays.json(b"{}"), tls=server_for(authority, *names)) as upstream:
        async with serving(settings_for(upstream.url, upstream={"ca_file": ca_file, "api_key": "sk-the-upstreams"})) as gateway:
            answer = await ask(gateway.port, "GET", "/v1/models")
            assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_tls")
        assert upstream.attempts == []


@pytest.mark.parametrize("name", ["PYTHONHTTPSVERIFY", "SSL_NO_VERIFY", "NODE_TLS_REJECT_UNAUTHORIZED", "CURL_INSECURE", "HTTPX_VERIFY"])
def test_no_variable_switches_it_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "0")
    context = context_factory()()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_no_setting_and_no_line_switches_it_off() -> None:
    def names(kind: Any) -> set[str]:
        return {field.name for field in dataclasses.fields(kind)}

    assert not {name for name in names(values.Upstream) if "verify" in name or "insecure" in name}
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        for off in ("CERT_NONE", "verify=False", "check_hostname = False", "_create_unverified_context", "CERT_OPTIONAL"):
            assert off not in source, f"{off} in {path.name}"
