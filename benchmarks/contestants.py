"""What stands in the middle: how each is started on a port, with the same upstream behind it, and whether it is there at all."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
_LITELLM: Final = """
model_list:
  - model_name: "*"
    litellm_params: {{model: "openai/*", api_base: "http://127.0.0.1:{upstream}/v1", api_key: sk-bench}}
"""


@dataclass(frozen=True)
class Contestant:
    """start(folder, port, upstream port) -> command and environment; None where the program is not installed. extra: request fields."""

    name: str
    start: Callable[[Path, int, int], tuple[list[str], dict[str, str]] | None]
    extra: bytes = b""


@dataclass
class Running:
    contestant: Contestant
    port: int
    process: subprocess.Popen[bytes]
    started_s: float  # until it took a connection

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


def _nginx(scheme: str = "http") -> Callable[[Path, int, int], tuple[list[str], dict[str, str]] | None]:
    def start(folder: Path, port: int, upstream: int) -> tuple[list[str], dict[str, str]] | None:
        program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if program is None:
            return None
        config = folder / f"nginx-{scheme}.conf"
        config.write_text(_NGINX.format(folder=folder, port=port, upstream=upstream, scheme=scheme))
        return [program, "-c", str(config), "-e", "stderr"], {}

    return start


def _decluster(mode: str, scheme: str = "http") -> Callable[[Path, int, int], tuple[list[str], dict[str, str]] | None]:
    def start(folder: Path, port: int, upstream: int) -> tuple[list[str], dict[str, str]]:
        config = folder / f"decluster-{mode}-{scheme}.yaml"
        trust = f", ca_file: {folder / 'ca.pem'}" if scheme == "https" else ""
        config.write_text(
            f"listen: {{port: {port}}}\nlog: {{level: warning}}\npacing: {{mode: {mode}}}\n"
            f"upstreams: [{{name: bench, base_url: '{scheme}://127.0.0.1:{upstream}/v1'{trust}}}]\n"
        )
        return [sys.executable, "-m", "gateway", "serve", "--config", str(config)], {}

    return start


def _floor(mode: str) -> Callable[[Path, int, int], tuple[list[str], dict[str, str]] | None]:
    return lambda folder, port, upstream: ([sys.executable, "-m", "benchmarks.floor", str(port), str(upstream), mode], {})


def _plain(folder: Path, port: int, upstream: int) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "benchmarks.plain", str(port), f"http://127.0.0.1:{upstream}"], {}


def _litellm(folder: Path, port: int, upstream: int) -> tuple[list[str], dict[str, str]] | None:
    program = os.environ.get("BENCH_LITELLM") or shutil.which("litellm")
    if program is None or not shutil.which(program) or subprocess.run([program, "--help"], capture_output=True).returncode:  # noqa: S603
        return None  # the package is there without its proxy extra
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM.format(upstream=upstream))
    return [program, "--config", str(config), "--port", str(port), "--host", "127.0.0.1"], {
        "LITELLM_LOG": "ERROR",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }


def _portkey(folder: Path, port: int, upstream: int) -> tuple[list[str], dict[str, str]] | None:
    """`npm install @portkey-ai/gateway` somewhere, and BENCH_PORTKEY = the path of its build/start-server.js."""
    script, node = os.environ.get("BENCH_PORTKEY"), shutil.which("node")
    if script is None or node is None:
        return None
    return [node, script, f"--port={port}", "--headless"], {"NODE_ENV": "production"}


NGINX: Final = Contestant("nginx", _nginx())
PACED: Final = Contestant("decluster, paced", _decluster("smooth"))
RAW: Final = Contestant("decluster, raw", _decluster("raw"))
PLAIN: Final = Contestant("Starlette + httpx", _plain)
BARE: Final = Contestant("bytes passed on unread (uvloop)", _floor("pass"))
BARE_FRAMES: Final = Contestant("bytes cut into frames unread (uvloop)", _floor("frames"))
SECURE: Final = (Contestant("nginx", _nginx("https")), Contestant("decluster, paced", _decluster("smooth", "https")))
PEERS: Final = (Contestant("LiteLLM's proxy", _litellm), Contestant("Portkey's gateway", _portkey))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(command: list[str], port: int, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts a server and returns once it takes connections."""
    process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL)  # noqa: S603  # our own commands
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.02)
    process.kill()
    raise RuntimeError(f"{command[0]} did not start")


def start(contestant: Contestant, folder: Path, upstream: int) -> Running | None:
    port = free_port()
    found = contestant.start(folder, port, upstream)
    if found is None:
        return None
    extra = contestant.extra
    if "Portkey" in contestant.name:  # it is told its upstream with each request
        extra = b"x-portkey-provider: openai\r\nx-portkey-custom-host: http://127.0.0.1:%d/v1\r\n" % upstream
    command, environment = found
    began = time.monotonic()
    process = run(command, port, environment)
    return Running(Contestant(contestant.name, contestant.start, extra), port, process, time.monotonic() - began)
