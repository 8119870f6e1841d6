"""Programs that tests run and pip does not bring: found, or installed from the system's packages where that is possible."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@functools.cache
def _installed(package: str) -> str:
    """What apt said; empty where it went well, or where there is no apt to ask."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and shutil.which("sudo") is None:
        return "only root may install"
    command = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    subprocess.run([*command, "-qq", "update"], capture_output=True, check=False, timeout=300)
    done = subprocess.run(
        [*command, "-qq", "-y", "--no-install-recommends", "install", package], capture_output=True, text=True, check=False, timeout=600
    )
    return done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else ""


def program(name: str, package: str = "") -> str:
    """The path of a program, also of one that `.[test]` brings. Where it is missing its Debian package is installed; where that cannot be, the
    test is not run and says why."""
    places = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    found = shutil.which(name, path=places)
    if found is None:
        why = _installed(package or name)
        found = shutil.which(name, path=places)
        if found is None:
            pytest.skip(f"needs {name}: apt-get install {package or name} ({why or 'it did not help'})")
    return found
