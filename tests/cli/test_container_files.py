"""The container files start the program with arguments that it takes, and hold to what they promise."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli import SIMULATOR_PORT, main
from gateway.settings import Settings, Shutdown

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def instruction(name: str) -> list[str]:
    (found,) = re.findall(rf"^{name} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    words = json.loads(found)
    assert isinstance(words, list)
    return words


def test_the_image_serves_with_nothing_but_an_upstream_in_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert instruction("ENTRYPOINT") == ["decluster"]
    assert main([*instruction("CMD"), "--print-config"], {"DECLUSTER_UPSTREAM": "http://simulate:9101"}) == 0
    listen = yaml.safe_load(capsys.readouterr().out)["listen"]
    assert (listen["host"], f"EXPOSE {listen['port']}" in DOCKERFILE) == ("0.0.0.0", True)  # noqa: S104


def test_the_health_check_is_python_that_compiles() -> None:
    (found,) = re.findall(r"^HEALTHCHECK .*? CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    python, flag, code = json.loads(found)
    assert (python, flag) == ("python", "-c")
    compile(code, "healthcheck", "exec")
    assert "/healthz" in code


def test_the_image_runs_as_nobody_in_particular() -> None:
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001"]


def test_compose_puts_the_gateway_in_front_of_the_simulator() -> None:
    simulate, gateway = COMPOSE["services"]["simulate"], COMPOSE["services"]["gateway"]
    assert simulate["command"] == ["simulate", "--host", "0.0.0.0", "--port", str(SIMULATOR_PORT)]  # noqa: S104
    assert gateway["environment"]["DECLUSTER_UPSTREAM"] == f"${{DECLUSTER_UPSTREAM:-http://simulate:{SIMULATOR_PORT}}}"


def test_compose_gives_streams_longer_to_end_than_the_gateway_does() -> None:
    assert int(COMPOSE["services"]["gateway"]["stop_grace_period"].removesuffix("s")) > Shutdown().grace


def test_the_build_gets_all_that_the_build_wants() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set(" ".join(re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE)).split())
    assert copied == allowed
    assert Settings.__module__.partition(".")[0] in allowed
