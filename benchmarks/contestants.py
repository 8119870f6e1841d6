"""What stands in the middle: how each is started on a port, with the same upstream behind it. Peers are in `peers.py`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parent.parent
DIRECT: Final = "direct"
_STARTS_WITHIN_S: Final = 90.0  # litellm's proxy takes half a minute on a busy machine
_NGINX: Final = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder}; keepalive_requests 1000000; client_body_buffer_size 64k;
  upstream up {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass {scheme}://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""
Upstream = Literal["plain", "tls", "either"]  # benchmarks.upstream, the same with TLS, benchmarks.either
Command = tuple[list[str], dict[str, str]]  # and what is added to the environment; an empty value takes a variable away


class NotThereError(Exception):
    """It is not installed; the message says what would bring it."""


@dataclass(frozen=True)
class Place:
    """Where one is started. build: a folder with the `gateway` package that is to run; None: that of this tree."""

    folder: Path
    port: int
    upstream: int
    build: Path | None = None


@dataclass(frozen=True)
class Contestant:
    """asks(upstream's port): request fields that it must have. version: of what is installed, for the report."""

    name: str
    start: Callable[[Place], Command]
    upstream: Upstream = "plain"
    asks: Callable[[int], bytes] = lambda upstream: b""
    version: Callable[[], str] = lambda: ""


@dataclass
class Running:
    contestant: Contestant
    port: int
    process: subprocess.Popen[bytes]
    started_s: float  # until it took a connection
    extra: bytes = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _nginx(scheme: str = "http") -> Callable[[Place], Command]:
    def start(place: Place) -> Command:
        config = place.folder / f"nginx-{place.port}.conf"
        config.write_text(_NGINX.format(folder=place.folder, port=place.port, upstream=place.upstream, scheme=scheme))
        return [_nginx_program(), "-c", str(config), "-e", "stderr"], {}

    return start


def _nginx_program() -> str:
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        raise NotThereError("apt install nginx-light")
    return program


def _nginx_version() -> str:
    said = subprocess.run([_nginx_program(), "-v"], capture_output=True, text=True, check=False).stderr  # noqa: S603  # our own command
    found = re.search(r"nginx/([\d.]+)", said)
    return found[1] if found else ""


def _decluster(mode: str, scheme: str = "http", http2: bool = False, interpreted: bool = False) -> Callable[[Place], Command]:
    def start(place: Place) -> Command:
        config = place.folder / f"decluster-{place.port}.yaml"
        more = f", ca_file: {place.folder / 'ca.pem'}" if scheme == "https" else ""
        more += ", http2: 'true'" if http2 else ""
        config.write_text(
            f"listen: {{port: {place.port}}}\nlog: {{level: warning}}\npacing: {{mode: {mode}}}\n"
            f"upstreams: [{{name: bench, base_url: '{scheme}://127.0.0.1:{place.upstream}/v1'{more}}}]\n"
        )
        environment = package(None if interpreted else place.build)
        return [sys.executable, "-m", "gateway", "serve", "--config", str(config)], environment

    return start


def package(build: Path | None) -> dict[str, str]:
    """The environment in which `gateway` is the one of that folder, wherever the process is started."""
    return {"PYTHONPATH": str((build or ROOT).resolve()), "PYTHONSAFEPATH": "1"}


def compiled(build: Path) -> int:
    """Modules of a build that are machine code. RuntimeError where `gateway` would not come from it."""
    asking = [sys.executable, "-c", "import gateway; print(gateway.__file__)"]
    said = subprocess.run(asking, env={**os.environ, **package(build)}, cwd="/", capture_output=True, text=True, check=False)  # noqa: S603
    if said.returncode or not Path(said.stdout.strip()).is_relative_to(build.resolve()):
        raise RuntimeError(f"there is no `gateway` in {build} that can be imported: {said.stderr.strip()[-200:]}")
    return sum(1 for _ in (build / "gateway").rglob("*.so"))


def _floor(mode: str) -> Callable[[Place], Command]:
    return lambda place: ([sys.executable, "-m", "benchmarks.floor", str(place.port), str(place.upstream), mode], package(None))


def _plain(place: Place) -> Command:
    return [sys.executable, "-m", "benchmarks.plain", str(place.port), f"http://127.0.0.1:{place.upstream}"], package(None)


NGINX: Final = Contestant("nginx", _nginx(), version=_nginx_version)
PACED: Final = Contestant("decluster, paced", _decluster("smooth"))
RAW: Final = Contestant("decluster, raw", _decluster("raw"))
INTERPRETED: Final = Contestant("decluster, paced, interpreted", _decluster("smooth", interpreted=True))  # beside a build
PLAIN: Final = Contestant("Starlette + httpx", _plain)
BARE: Final = Contestant("bytes passed on unread (uvloop)", _floor("pass"))
BARE_FRAMES: Final = Contestant("bytes cut into frames unread (uvloop)", _floor("frames"))
SECURE_NGINX: Final = Contestant(NGINX.name, _nginx("https"), "tls")
SECURE_PACED: Final = Contestant(PACED.name, _decluster("smooth", "https"), "tls")
SECURE_INTERPRETED: Final = Contestant(INTERPRETED.name, _decluster("smooth", "https", interpreted=True), "tls")
EITHER_NGINX: Final = Contestant(NGINX.name, _nginx(), "either")
EITHER_PACED: Final = Contestant(f"{PACED.name}, HTTP/1.1 to the upstream", _decluster("smooth"), "either")
EITHER_HTTP2: Final = Contestant(f"{PACED.name}, HTTP/2 to the upstream", _decluster("smooth", http2=True), "either")
EITHER_PLAIN: Final = Contestant(PLAIN.name, _plain, "either")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(command: list[str], port: int, added: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts a server and returns once it takes connections. RuntimeError with the last that it said, where it does not."""
    environment = {name: value for name, value in {**os.environ, **added}.items() if value}
    said = folder / f"said-{port}.txt"
    with said.open("wb") as file:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=file, stderr=subprocess.STDOUT)  # noqa: S603
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.02)
    process.kill()
    process.wait()
    last = [line for line in said.read_text(errors="replace").splitlines() if line.strip()][-3:]
    raise RuntimeError(f"{Path(command[0]).name} did not start: {' / '.join(last)}")


def start(contestant: Contestant, folder: Path, upstream: int, build: Path | None) -> Running:
    """NotThereError, or RuntimeError where it is there and does not start."""
    port = free_port()
    command, environment = contestant.start(Place(folder, port, upstream, build))
    began = time.monotonic()
    process = run(command, port, environment, folder)
    return Running(contestant, port, process, time.monotonic() - began, contestant.asks(upstream))
