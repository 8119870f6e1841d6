"""The unit for systemd, looked at by systemd's own tools, and in step with the gateway's settings."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.server.run import LAST_WORDS_S
from gateway.settings import Shutdown
from support.programs import program

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "decluster.service"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """As it stands, but for the program, which has to be there to be looked at."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/decluster/bin/decluster", str(Path(sys.executable).with_name("decluster"))))
    return path


def analyzed(*arguments: str) -> str:
    done = subprocess.run([program("systemd-analyze", "systemd"), "--no-pager", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_understands_it(unit: Path) -> None:
    assert analyzed("verify", "--man=no", str(unit)) == ""


def test_systemd_finds_it_little_exposed(unit: Path) -> None:
    assert "Overall exposure level" in analyzed("security", "--offline=true", "--threshold=20", str(unit))


def test_streams_have_the_time_that_the_gateway_gives_them_and_one_signal() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    service = parser["Service"]
    assert float(service["TimeoutStopSec"].removesuffix("s")) > Shutdown().grace + LAST_WORDS_S
    assert service["KillMode"] == "mixed", "a second signal ends streams at once, and workers get theirs from the main process"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
