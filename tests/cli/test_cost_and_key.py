"""`decluster cost` and `decluster key`, in this process."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from gateway.config import loads


def said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0, **environ: str) -> str:
    assert main(argv, environ) == code
    return capsys.readouterr().out


def models(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    return {each["model"]: each for each in json.loads(said(capsys, "cost", "--json", *argv))["models"]}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "decluster.yaml"
    path.write_text(
        "upstreams: [{name: a, base_url: 'http://127.0.0.1:1', models: [mine, gpt-4o-mini]}]\n"
        "cost:\n  prices:\n    - {models: [mine], input: 1, output: 3}\n    - {models: ['x*'], input: 9, output: 9}\n"
    )
    return str(path)


def test_a_month_is_tokens_times_prices(capsys: pytest.CaptureFixture[str], config: str) -> None:
    found = models(capsys, "--config", config, "--tokens-per-month", "2_000_000", "--prompt-share", "0.5", "mine")
    assert found["mine"]["month_usd"] == pytest.approx(1 * 1 + 1 * 3)
    assert found["mine"]["source"] == "configuration"


def test_without_a_name_the_configurations_models_are_projected_and_patterns_are_none(
    capsys: pytest.CaptureFixture[str], config: str
) -> None:
    found = models(capsys, "--config", config)
    assert set(found) == {"mine", "gpt-4o-mini"}
    assert found["gpt-4o-mini"]["source"].startswith("genai-prices ")


def test_what_is_read_from_a_cache_is_cheaper(capsys: pytest.CaptureFixture[str]) -> None:
    none, half = (models(capsys, "gpt-4o-mini", "--cached-share", share)["gpt-4o-mini"]["month_usd"] for share in ("0", "0.5"))
    assert half < none


def test_the_table_has_the_dearest_first_and_says_what_it_assumes(capsys: pytest.CaptureFixture[str]) -> None:
    head, _, _, *rows = said(capsys, "cost", "gpt-4o-mini", "gpt-4o", "unheard-of").splitlines()
    assert head.startswith("10 million tokens a month, 75% of them prompt")
    assert [row.split()[0] for row in rows] == ["gpt-4o", "gpt-4o-mini", "unheard-of"]
    assert "no price" in rows[-1]


def test_a_provider_has_its_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert "claude-sonnet-4-5" in models(capsys, "--provider", "anthropic")


def test_nothing_priced_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "cost", "unheard-of", code=1)
    said(capsys, "cost", "--provider", "nobody", code=1)


@pytest.mark.parametrize("argv", [("--tokens-per-month", "many"), ("--prompt-share", "2"), ("--cached-share", "-1")])
def test_what_is_no_number_is_refused(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]) -> None:
    said(capsys, "cost", *argv, code=2)


def test_a_key_comes_with_its_hash_in_the_form_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "key", "alice")
    key = next(line.strip() for line in out.splitlines() if line.strip().startswith("dck-"))
    settings = loads("upstreams: [{name: a, base_url: 'http://x'}]\n" + out[out.index("clients:") :], {})
    (client,) = settings.clients
    assert (client.name, client.key_sha256) == ("alice", hashlib.sha256(key.encode()).hexdigest())
    assert len(key) >= 40
    assert said(capsys, "key", "alice") != out


def test_the_hash_of_a_key_that_is_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("my-own-key\n"))
    out = said(capsys, "key", "--hash")
    assert hashlib.sha256(b"my-own-key").hexdigest() in out
    assert "my-own-key" not in out


def test_an_empty_key_and_an_odd_name_are_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    said(capsys, "key", "--hash", code=2)
    said(capsys, "key", "two words", code=2)
