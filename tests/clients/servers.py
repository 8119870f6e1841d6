"""Where clients are sent: the embedded upstream, gateways in front of it, and a folder for what they leave on the disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sdks import processes
from sdks.seen import Seen

RUN_S: Final = 120.0  # a safety net: most runs take two seconds
HEARTBEATS: Final = "heartbeat: {{every: 300ms, style: {style}}}\n"
STYLES: Final = ("comment", "native", "auto")


@dataclass(frozen=True)
class Site:
    """Base URLs without /v1. beating: by style of heartbeat, each in front of a gateway that answers with the first content and not before."""

    root: Path
    direct: str
    gateway: str
    beating: Mapping[str, str]
    seen: Seen
    log: Path  # of the gateway

    def both(self) -> tuple[str, str]:
        return self.direct, self.gateway

    def folder(self) -> Path:
        """An empty one. Their names have one length, since agents tell the model where they are."""
        return Path(tempfile.mkdtemp(prefix="run-", dir=self.root))


@contextmanager
def serving(root: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        upstream = stack.enter_context(processes.simulator(root / "simulator.log"))
        late = stack.enter_context(processes.gateway(upstream, root / "late.log", "pacing: {mode: raw}\n"))
        beating = {
            style: stack.enter_context(processes.gateway(late, root / f"{style}.log", HEARTBEATS.format(style=style))) for style in STYLES
        }
        log = root / "gateway.log"
        yield Site(root, upstream, stack.enter_context(processes.gateway(upstream, log)), beating, Seen(upstream), log)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def lines(self) -> list[Any]:
        """What it printed as JSON, a value each line. Texts hold U+2028, at which `splitlines` would cut too."""
        return [json.loads(line) for line in self.out.split("\n") if line]


def run(argv: list[str], folder: Path, environ: Mapping[str, str], leave: Callable[[], object] | None = None) -> Done:
    """A program to its end, with its home in `folder`. leave: waits for the moment at which it is interrupted as by Ctrl-C."""
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env={**_kept(), "HOME": str(folder), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # so that what it started can be ended with it
    )
    try:
        if leave is not None:
            leave()
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=RUN_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Done(process.returncode, out, err)


def _kept() -> dict[str, str]:
    """Of the environment what a program needs to start: no keys, no proxies. Node is the one that came with Python's packages."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"PATH": path, **{name: os.environ[name] for name in ("LANG", "TERM", "SYSTEMROOT") if name in os.environ}}


def run_script(script: str, folder: Path, given: str) -> str:
    """A script of this folder on Node, with the packages that were installed in `folder`: what it printed."""
    shutil.copy(Path(__file__).parent / script, folder)
    done = subprocess.run(
        ["node", script],
        cwd=folder,
        env={**_kept(), "HOME": str(folder)},
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
