"""Real upstreams as processes on free ports, ended in every case."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdks import processes
from upstreams.environments import Environment

START_S = 120.0  # importing PyTorch or litellm takes 5 s on an idle machine
END_S = 15.0
POLL_S = 0.1
KEY = "sk-made-up-for-this-run-0123456789abcdef"  # litellm's proxy does not start without one


@contextmanager
def transformers(environment: Environment, model: Path, log: Path) -> Iterator[str]:
    """Its base URL without /v1."""
    port = _free_port()
    argv = [environment.program("transformers"), "serve", str(model), "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    with _running(argv, port, "/health", log, {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}) as url:
        yield url


@contextmanager
def llama(environment: Environment, model: Path, log: Path) -> Iterator[str]:
    port = _free_port()
    argv = [environment.program("python"), "-m", "llama_cpp.server", "--model", str(model), "--model_alias", "tiny", "--n_ctx", "2048"]
    with _running([*argv, "--n_threads", "1", "--host", "127.0.0.1", "--port", str(port)], port, "/v1/models", log) as url:
        yield url


@contextmanager
def litellm(environment: Environment, models: Mapping[str, Mapping[str, Any]], log: Path) -> Iterator[str]:
    """models: its `litellm_params` by the name that clients ask for."""
    port = _free_port()
    config = log.with_suffix(".yaml")  # JSON is YAML
    listed = [{"model_name": name, "litellm_params": {"api_key": "none", **params}} for name, params in models.items()]
    settings = {"telemetry": False, "num_retries": 0, "request_timeout": 60}
    routing = {"disable_cooldowns": True, "num_retries": 0}  # one refusal that is asked for must not close a model to the next request
    config.write_text(json.dumps({"model_list": listed, "litellm_settings": settings, "router_settings": routing}), encoding="utf-8")
    own = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DISABLE_ADMIN_UI": "True"}
    argv = [environment.program("litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with _running(argv, port, "/health/liveliness", log, own) as url:
        yield url


@contextmanager
def _running(argv: list[str], port: int, ready: str, log: Path, own: Mapping[str, str] | None = None) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    environ = {**processes.environment(os.environ), **(own or {})}
    with log.open("wb") as output:
        process = subprocess.Popen(argv, cwd=log.parent, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _wait(process, url + ready, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=START_S):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    raise processes.NotStarted(log.read_text(encoding="utf-8", errors="replace")[-3000:])


def _free_port() -> int:
    """These servers do not tell which port they took, so one is chosen for them; another process could be quicker, and the start fails."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
