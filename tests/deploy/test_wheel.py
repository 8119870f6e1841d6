"""What is published, with the source gone: an sdist, the wheel that is built from it, a fresh environment elsewhere with nothing else in it.

DECLUSTER_DIST names a folder with both, where they have been built already (the release workflow's, so that what is tried is what is published).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import Parser
from pathlib import Path

import pytest

from gateway import __version__
from gateway.server.page.feed import FILES

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600  # an index on the other side of the world


def environ() -> dict[str, str]:
    """Nothing of this checkout or its environment."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV")) and "proxy" not in name.lower()
    }
    return {**kept, "PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = os.environ.get("DECLUSTER_DIST")
    if built:
        return Path(built).resolve()
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which the wheel is all that was asked for."""
    folder = tmp_path_factory.mktemp("elsewhere") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=PATIENCE_S)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", str(wheel)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "bin"


def said(installed: Path, *command: str) -> str:
    done = subprocess.run(
        [str(installed / command[0]), *command[1:]],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=installed.parent, env=environ(), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@contextmanager
def running(installed: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """stdout and stderr in one."""
    with subprocess.Popen(
        [str(installed / "decluster"), *arguments],
        cwd=installed.parent, env=environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()


def test_the_version_stands_in_one_place_and_in_the_names_of_both_files(dist: Path, wheel: Path) -> None:
    assert wheel.name == f"decluster-{__version__}-py3-none-any.whl"
    assert [path.name for path in dist.glob("*.tar.gz")] == [f"decluster-{__version__}.tar.gz"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT"


def test_the_wheel_holds_the_program_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"gateway", f"decluster-{__version__}.dist-info"}
    files = [path for path in (ROOT / "gateway").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    source = {str(path.relative_to(ROOT)) for path in files if path.suffix != ".so"}  # somebody has compiled in this checkout
    assert {name for name in names if name.startswith("gateway/")} == source
    assert "gateway/py.typed" in names


def test_the_sdist_holds_what_its_tests_and_operators_need_and_no_rubbish(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "hatch_build.py",
        "LICENSE",
        "CHANGELOG.md",
        "Dockerfile",
        "deploy/haproxy/decluster.cfg",
        "tests/deploy/test_wheel.py",
    } <= names
    assert not [
        name
        for name in names
        if "__pycache__" in name or "node_modules" in name or name.startswith((".venv", ".git/")) or name.endswith(".so")
    ]


def test_the_command_runs_with_the_source_gone(installed: Path) -> None:
    assert said(installed, "decluster", "--version") == f"decluster {__version__} (pure Python)\n"
    where = said(installed, "python", "-c", "import gateway; print(gateway.__file__)")
    assert where.startswith(str(installed.parent))
    out = said(installed, "decluster", "demo", "--plain", "--model", "instant")
    assert "identical" in out
    assert f"{installed / 'decluster'} serve --upstream" in out, "what it says to type next is not in this PATH"


def test_a_stream_and_the_page_come_out_of_what_was_installed(installed: Path) -> None:
    with running(installed, "simulate", "--port", "0") as upstream:
        assert upstream.stdout is not None
        url = next(line for line in upstream.stdout if " at http" in line).split(" at ")[1].split()[0]
        with running(installed, "serve", "--upstream", url, "--port", "0", "--log-format", "json") as gateway:
            assert gateway.stdout is not None
            listening = next(line for line in gateway.stdout if '"listening"' in line)
            base = json.loads(listening)["url"].removesuffix("/v1")
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            body = json.dumps({"model": "instant", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
            request = urllib.request.Request(f"{base}/v1/chat/completions", body, {"content-type": "application/json"})
            with opener.open(request, timeout=60) as answer:
                assert answer.read().endswith(b"data: [DONE]\n\n")
            for path in FILES:
                with opener.open(base + path, timeout=60) as answer:
                    assert answer.status == 200
                    assert answer.read()
