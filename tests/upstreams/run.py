"""Streams from real upstreams, each asked directly and through the gateway: `python tests/upstreams/run.py`.

One command that needs nothing but Python: it makes virtual environments in a temporary folder (2 GB, half of it a PyTorch for the CPU), a tiny model
with random weights, starts the servers on free ports, prints a table, and ends with 0 if every answer was that of the direct call. About ten
minutes, most of which compiles llama.cpp (a C++ compiler is needed).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import environments

COMPARE_S = 1800.0  # five minutes on an idle machine
MODEL_S = 300.0


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--keep", type=Path, metavar="FOLDER", help="work there and leave it, for another run; else in a temporary folder")
    asked.add_argument(
        "--torch", default=environments.TORCH, help="what pip is asked for, e.g. where it finds a build for the CPU (default %(default)s)"
    )
    asked.add_argument("--without", action="append", default=[], choices=("llama", "transformers", "litellm"), help="leave one out")
    args = asked.parse_args()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is below cleans up
    folder = args.keep or Path(tempfile.mkdtemp(prefix="upstreams-"))
    try:
        return _in(folder.resolve(), args.torch, args.without)
    finally:
        if not args.keep:
            shutil.rmtree(folder)


def _in(folder: Path, torch: str, without: list[str]) -> int:
    # The model is made in transformers' environment, so that one is always needed; `--without` leaves out its server.
    wanted = {name: packages for name, packages in environments.needs(torch).items() if name not in without or name == "transformers"}
    made = environments.make_all(folder, wanted)
    for name, environment in made.items():
        if environment.failed:
            print(f"\n{name} could not be installed:\n{environment.failed}\n")
    if made["client"].failed or made["transformers"].failed:
        return 1
    model = folder / "tiny"
    here = Path(__file__).parent
    subprocess.run([made["transformers"].program("python"), str(here / "tiny.py"), str(model)], check=True, timeout=MODEL_S)
    servers = [name for name, environment in made.items() if not environment.failed and name not in (*without, "client")]
    code = _compare(made["client"].program("python"), [str(folder), *servers], {**os.environ, "PYTHONPATH": str(here.parent)})
    return code or int(any(environment.failed for environment in made.values()))


def _compare(python: str, argv: list[str], environ: dict[str, str]) -> int:
    """In a process group of its own, which ends whole: a comparison that hangs leaves no server behind."""
    process = subprocess.Popen([python, "-m", "upstreams.compare", *argv], env=environ, start_new_session=True)
    try:
        return process.wait(COMPARE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
        print(f"stopped: {reason!r}")
        return 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
