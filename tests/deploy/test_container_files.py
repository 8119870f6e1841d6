"""The container files start the program with arguments that it takes, and hold to what they promise; by tools that know the formats, too."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.dockerfile import read
from gateway.cli import SIMULATOR_PORT, main
from gateway.server.run import LAST_WORDS_S
from gateway.settings import Settings, Shutdown

ROOT = Path(__file__).parents[2]
BUILD, IMAGE = read(ROOT / "Dockerfile", {"VERSION": "1.2.3", "REVISION": "abc"})
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def tool(name: str, *arguments: str) -> None:
    """One of those that `.[test]` brings; it finds nothing to say."""
    done = subprocess.run([str(Path(sys.executable).with_name(name)), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_has_nothing_to_say_of_the_dockerfile() -> None:
    tool("hadolint", "--failure-threshold", "style", "Dockerfile")


def test_compose_and_the_workflows_are_what_their_schemas_ask_for() -> None:
    tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")
    tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS))


def test_each_action_of_the_workflows_is_pinned_by_its_digest() -> None:
    uses = [
        step["uses"]
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        if "uses" in step
    ]
    assert len(uses) >= 6
    for action in uses:
        digest = action.partition("@")[2]
        assert len(digest) == 40, action
        assert int(digest, 16), action


def test_the_image_serves_with_nothing_but_an_upstream_in_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert IMAGE.words("ENTRYPOINT") == ["decluster"]
    assert main([*IMAGE.words("CMD"), "--print-config"], {"DECLUSTER_UPSTREAM": "http://simulate:9101"}) == 0
    listen = yaml.safe_load(capsys.readouterr().out)["listen"]
    assert listen["host"] == "0.0.0.0"  # noqa: S104
    assert IMAGE.last("EXPOSE") == str(listen["port"])


def test_the_health_check_asks_the_port_that_the_image_serves() -> None:
    python, flag, code = IMAGE.words("HEALTHCHECK")
    assert (python, flag) == ("python", "-c")
    texts = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    assert "/healthz" in texts
    assert int(IMAGE.last("EXPOSE")) in texts


def test_the_image_runs_as_nobody_in_particular_and_takes_its_signals_itself() -> None:
    assert IMAGE.last("USER") == "10001"
    assert "--uid 10001" in IMAGE.last("RUN")
    assert IMAGE.last("STOPSIGNAL") == "SIGTERM"
    assert not any(name in ("SHELL", "CMD") and not text.startswith("[") for name, text in IMAGE.steps)


def test_the_last_stage_builds_nothing_and_says_what_it_is() -> None:
    assert not any(word in text for name, text in IMAGE.steps if name == "RUN" for word in ("pip", "apt", "gcc"))
    assert IMAGE.base == BUILD.base
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in IMAGE.labels.items()}
    assert labels["version"] == "1.2.3"
    assert labels["revision"] == "abc"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (labels["title"], labels["description"], labels["licenses"]) == (project["name"], project["description"], project["license"])
    assert set(BUILD.arguments["EXTRAS"].split(",")) <= set(project["optional-dependencies"])


def test_the_image_can_do_what_a_fleet_asks_of_it() -> None:
    assert "redis" in BUILD.arguments["EXTRAS"].split(",")


def test_compose_puts_the_gateway_in_front_of_the_simulator() -> None:
    simulate, gateway = COMPOSE["services"]["simulate"], COMPOSE["services"]["gateway"]
    assert simulate["command"] == ["simulate", "--host", "0.0.0.0", "--port", str(SIMULATOR_PORT)]  # noqa: S104
    assert gateway["environment"]["DECLUSTER_UPSTREAM"] == f"${{DECLUSTER_UPSTREAM:-http://simulate:{SIMULATOR_PORT}}}"


def test_compose_gives_streams_longer_to_end_than_the_gateway_does() -> None:
    assert int(COMPOSE["services"]["gateway"]["stop_grace_period"].removesuffix("s")) > Shutdown().grace + LAST_WORDS_S


def test_all_services_are_seen_by_this_machine_only_and_what_they_mount_is_there() -> None:
    for name, service in COMPOSE["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert "no-new-privileges:true" in service["security_opt"], name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).exists(), volume


def test_the_build_gets_all_that_the_build_wants() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for name, text in BUILD.steps if name == "COPY" for source in text.split()[:-1]}
    assert copied == allowed
    assert Settings.__module__.partition(".")[0] in allowed
