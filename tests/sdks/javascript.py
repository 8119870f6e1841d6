"""Node and the SDKs of package.json, installed into a folder of the test's own; a script is given jobs and prints what came of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

INSTALL_S = 300.0  # safety nets: an install takes five seconds with a warm cache, a script two
SCRIPT_S = 120.0


@dataclass(frozen=True)
class Node:
    folder: Path

    @classmethod
    def installed(cls, sources: Path, folder: Path, environ: Mapping[str, str]) -> Self:
        """environ: where the way to npm's registry may stand."""
        for source in sources.iterdir():
            if source.is_file():
                shutil.copy(source, folder)
        node = cls(folder)
        node._run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"], "", INSTALL_S, environ)
        return node

    def jobs(self, script: str, jobs: list[dict[str, Any]]) -> list[Any]:
        """All of them at once in one process; a result each, in their order."""
        results = json.loads(self._run(["node", script], json.dumps(jobs), SCRIPT_S, os.environ))
        assert len(results) == len(jobs)
        return list(results)

    def _run(self, command: list[str], given: str, timeout_s: float, environ: Mapping[str, str]) -> str:
        # The environment that these tests run in brings Node with it: the system's may be missing or too old.
        here = str(Path(sys.executable).parent)
        environ = {**environ, "PATH": os.pathsep.join([here, environ.get("PATH", "")])}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environ,
            input=given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout
