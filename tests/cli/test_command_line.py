"""What the command line takes, what it says when it does not, and with which exit code; in this process."""

from __future__ import annotations

import errno
import re
import socket
from pathlib import Path

import pytest
import yaml

from gateway import __version__, piece
from gateway.cli import explain, main
from gateway.config import loads
from gateway.settings import Listen, Log
from gateway.simulator import scenarios

URL = "http://127.0.0.1:9101"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "decluster.yaml"
    path.write_text("upstreams: [{name: a, base_url: 'http://x', api_key: '${KEY}'}]\nlisten:\n  port: 81\n")
    return path


def refusal(capsys: pytest.CaptureFixture[str], *argv: str, **environ: str) -> str:
    """The one line on stderr of a command line that is refused."""
    assert main(argv, environ) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    return err.rstrip()


@pytest.mark.parametrize("command", ["", "serve", "simulate", "demo"])
def test_help_has_examples_and_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"], {}) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"examples:\n  decluster {command}".rstrip() in out
    assert "exit codes:\n  0 " in out
    assert all(len(line) <= 110 for line in out.splitlines())


def test_the_examples_of_the_help_are_understood(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    main(["serve", "--help"], {})
    lines = re.findall(r"^  decluster (serve .*?)(?:   .*)?$", capsys.readouterr().out, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        argv = line.replace("decluster.yaml", str(config)).split()
        assert main([*argv, "--print-config"], {"KEY": "k"}) == 0


@pytest.mark.parametrize("command", ["simulate", "demo"])
def test_the_help_lists_the_scenarios(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([command, "--help"], {})
    listed = re.findall(
        r"^  (\S+) +\S", capsys.readouterr().out.partition("scenarios, by model name:\n")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert listed == list(scenarios.TABLE)


def test_the_help_names_the_defaults_that_are_so(capsys: pytest.CaptureFixture[str]) -> None:
    main(["serve", "--help"], {})
    text = " ".join(capsys.readouterr().out.split())
    for default in (Listen().host, Listen().port, Log().level):
        assert f"(default {default})" in text


def test_the_version_says_which_build_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"], {}) == 0
    build = "pure Python" if piece.__file__.endswith(".py") else "compiled"
    assert capsys.readouterr().out == f"decluster {__version__} ({build})\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "COMMAND"),
        (["sevre"], "invalid choice: 'sevre'"),
        (["serve", "--upstraem", URL], "unknown option '--upstraem'; did you mean --upstream?"),
        (["serve", "--up", URL], "unknown option '--up'"),
        (["serve", "--key=sk-1", "--upstream", URL], "unknown option '--key' (see"),
        (["serve", "--upstream", URL, "--port", "70000"], "a port is a number from 0 to 65535"),
        (["serve", "--upstream", URL, "--port", "http"], "a port is a number from 0 to 65535"),
        (["serve", "--upstream", URL, "--port", "-1"], "port"),
        (["serve", "--upstream", URL, "--port", "٣"], "a port is a number"),
        (["serve", "--upstream", URL, "--log-level", "loud"], "invalid choice: 'loud'"),
        (["serve", "--upstream", URL, "--host", "a b"], "--host: must be an address"),
        (["serve", "--upstream", "127.0.0.1:9101"], "--upstream: must begin with http:// or https://"),
        (["serve", "--upstream", URL, "--config", "a.yaml"], "--config and --upstream exclude each other"),
        (["serve", "--upstream", "", "--config", ""], "--config and --upstream exclude each other"),
        (["serve", "--config", "/no/such.yaml"], "/no/such.yaml: cannot be read (No such file or directory): check --config"),
        (["serve", "--config", ""], "for example: decluster serve --upstream https://api.openai.com/v1"),
        (["serve"], "for example: decluster serve --upstream https://api.openai.com/v1, or --config FILE"),
        (["simulate", "--port", "x"], "a port is a number"),
        (["demo", "extra"], "an argument too many"),
        (["demo", "--model", "nosuch"], "--model: no scenario is called 'nosuch'; there are smooth-then-clusters, "),
    ],
)
def test_what_cannot_be_understood_is_told_in_one_line_with_the_way_out(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, *argv)
    assert line.startswith(f"decluster {argv[0]}: error: " if argv and argv[0] != "sevre" else "decluster: error: ")
    assert said in line


def test_each_problem_of_a_file_is_a_line_with_file_line_and_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "decluster.yaml"
    path.write_text("upstreams: [{name: a, base_url: 'http://x'}]\nheartbeat:\n  evry: 15\npacing:\n  mode: smoth\n")
    assert main(["serve", "--config", str(path)], {}) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"decluster serve: error: {path}:3: heartbeat.evry: unknown key; did you mean heartbeat.every?",
        f"decluster serve: error: {path}:5: pacing.mode: must be smooth or raw; did you mean smooth?",
    ]


def test_print_config_shows_what_is_in_force_and_hides_secrets(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["serve", "--config", str(config), "--host", "::1", "--log-level", "debug", "--print-config"]
    assert main(argv, {"KEY": "sk-123"}) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "sk-123" not in out
    settings = loads(out, {})
    assert (settings.listen.host, settings.listen.port, settings.log.level) == ("::1", 81, "debug")


def test_the_environment_stands_in_where_the_command_line_is_silent(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def base_url(*argv: str, **environ: str) -> str:
        assert main(["serve", *argv, "--print-config"], {"KEY": "k", **environ}) == 0
        found = yaml.safe_load(capsys.readouterr().out)["upstreams"][0]["base_url"]
        assert isinstance(found, str)
        return found

    assert base_url(DECLUSTER_UPSTREAM=URL) == URL
    assert base_url(DECLUSTER_CONFIG=str(config)) == "http://x"
    assert base_url(DECLUSTER_CONFIG=str(config), DECLUSTER_UPSTREAM="") == "http://x"
    assert base_url("--upstream", "http://y", DECLUSTER_CONFIG=str(config)) == "http://y"
    assert base_url("--config", str(config), DECLUSTER_UPSTREAM=URL) == "http://x"
    assert "DECLUSTER_CONFIG and DECLUSTER_UPSTREAM exclude" in refusal(capsys, "serve", DECLUSTER_CONFIG="a", DECLUSTER_UPSTREAM=URL)


def test_a_key_of_its_own_is_not_opened_to_other_machines(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "serve", "--config", str(config), "--host", "0.0.0.0", KEY="k")  # noqa: S104
    assert "--host: 0.0.0.0 is reached from other machines" in line
    assert "listen.allow_public: true" in line


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EADDRINUSE, "x"), "127.0.0.1:80 is in use: end the other program, or choose another --port"),
        (OSError(errno.EACCES, "x"), "choose a --port above 1023"),
        (OSError(errno.EADDRNOTAVAIL, "x"), "choose another --host"),
        (socket.gaierror(-2, "x"), "choose another --host"),
        (OSError(errno.EMFILE, "Too many open files"), "could not run: Too many open files"),
        (OSError("odd"), "could not run: OSError"),
    ],
)
def test_why_it_cannot_listen_is_told_with_the_remedy(error: OSError, said: str) -> None:
    assert said in explain(error, "127.0.0.1", 80)


def test_an_ipv6_address_is_told_with_brackets() -> None:
    assert explain(OSError(errno.EADDRINUSE, "x"), "::1", 80).startswith("[::1]:80 ")
