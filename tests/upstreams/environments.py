"""Virtual environments for what is compared, each its own, since the servers do not agree on their dependencies."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALL_S = 1800.0  # llama.cpp is compiled: five minutes on two cores
TORCH = "torch==2.13.0"

# llama.cpp without what a text model does not need.
_BUILD = {"CMAKE_ARGS": "-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF", "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 2)}


@dataclass(frozen=True)
class Environment:
    """failed: why it could not be made, the end of pip's output; empty where it could."""

    folder: Path
    failed: str = ""

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def version(self, package: str) -> str:
        asked = [self.program("python"), "-c", f"from importlib.metadata import version; print(version({package!r}))"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def needs(torch: str = TORCH) -> dict[str, list[str]]:
    return {
        "client": ["-e", str(ROOT), "openai", "anthropic"],
        "transformers": [torch, "transformers[serving]", "gguf"],
        "llama": ["llama-cpp-python[server]"],
        "litellm": ["litellm[proxy]"],
    }


def make_all(folder: Path, wanted: Mapping[str, list[str]]) -> dict[str, Environment]:
    """All at once: one is compiled, the others are downloaded."""
    with ThreadPoolExecutor(len(wanted)) as pool:
        made = {name: pool.submit(make, folder / name, packages) for name, packages in wanted.items()}
        return {name: future.result() for name, future in made.items()}


def make(folder: Path, packages: list[str]) -> Environment:
    """One that is there already is kept, so that `--keep` makes a second run short."""
    done = folder / "done"
    if done.exists() and done.read_text(encoding="utf-8") == repr(packages):
        return Environment(folder)
    print(f"installing {' '.join(packages)}", flush=True)
    venv.create(folder, with_pip=True)
    log = folder / "pip.log"
    command = [str(folder / "bin" / "pip"), "install", "--disable-pip-version-check", "--progress-bar", "off", *packages]
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command, stdout=output, stderr=output, env={**os.environ, **_BUILD}, timeout=INSTALL_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return Environment(folder, f"not installed within {INSTALL_S:.0f} s")
    if code:
        return Environment(folder, "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]))
    done.write_text(repr(packages), encoding="utf-8")
    return Environment(folder)
