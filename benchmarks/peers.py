"""Gateways that others have made, as contestants. Each takes part where the environment says where it is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

from benchmarks.contestants import Command, Contestant, NotThereError, Place

_LITELLM: Final = """
model_list:
  - model_name: "*"
    litellm_params: {{model: "openai/*", api_base: "http://127.0.0.1:{upstream}/v1", api_key: sk-bench}}
"""


def _litellm_program() -> str:
    program = shutil.which(os.environ.get("BENCH_LITELLM", "litellm"))
    if program is None:
        raise NotThereError("pip install 'litellm[proxy]' in an environment of its own, and BENCH_LITELLM = its program `litellm`")
    return str(Path(program).absolute())


def _litellm(place: Place) -> Command:
    config = place.folder / f"litellm-{place.port}.yaml"
    config.write_text(_LITELLM.format(upstream=place.upstream))
    return [_litellm_program(), "--config", str(config), "--port", str(place.port), "--host", "127.0.0.1"], {
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # asks nobody for prices
        # Since 1.108 it ends at its start without a master key. It listens here only, and a key would make each request dearer.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_MASTER_KEY": "",  # whose proxy this machine is set up for otherwise: it is not this one
        "DATABASE_URL": "",
    }


def _litellm_version() -> str:
    found = Path(_litellm_program()).parent.parent.glob("lib/python*/site-packages/litellm-[0-9]*.dist-info")
    return next((path.name.removesuffix(".dist-info").partition("-")[2] for path in found), "")


def _portkey_script() -> Path:
    script = os.environ.get("BENCH_PORTKEY")
    if script is None or not Path(script).is_file() or shutil.which("node") is None:
        raise NotThereError("node, npm install @portkey-ai/gateway, and BENCH_PORTKEY = its build/start-server.js")
    return Path(script).absolute()


def _portkey(place: Place) -> Command:
    return [shutil.which("node") or "node", str(_portkey_script()), f"--port={place.port}", "--headless"], {"NODE_ENV": "production"}


def _portkey_asks(upstream: int) -> bytes:
    """It is told its upstream with each request."""
    return b"x-portkey-provider: openai\r\nx-portkey-custom-host: http://127.0.0.1:%d/v1\r\n" % upstream


def _portkey_version() -> str:
    about = _portkey_script().parent.parent / "package.json"
    return str(json.loads(about.read_text()).get("version", "")) if about.is_file() else ""


LITELLM: Final = Contestant("LiteLLM's proxy", _litellm, version=_litellm_version)
PORTKEY: Final = Contestant("Portkey's gateway", _portkey, asks=_portkey_asks, version=_portkey_version)
PEERS: Final = (LITELLM, PORTKEY)
