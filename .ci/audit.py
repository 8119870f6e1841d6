"""Whether anything that `pip install decluster` brings, with all its extras for users, has a known weakness.

Asks pip-audit about the versions that are installed beside this interpreter. Exit code 1: something has one. Exit code 0, and words that
cannot be missed: nobody could be asked (no network, a mirror without advisories), or not about everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "decluster"
EXTRAS = frozenset({"redis", "otel", "png"})  # what users run; test and lint are ours


def closure() -> dict[str, str]:
    """Name and version of all that the project needs, as installed here."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(PROJECT, EXTRAS)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue  # of another platform
        if name != PROJECT:
            found[name] = installed.version
        for line in installed.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return found


def main() -> int:
    wanted = closure()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{name}=={version}\n" for name, version in sorted(wanted.items())))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--requirement", file.name, "--no-deps", "--disable-pip"]
        run = subprocess.run(
            [*command, "--format", "json", "--progress-spinner", "off", "--timeout", "20"], capture_output=True, text=True, check=False
        )
    try:
        rows = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        why = (run.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"NOT AUDITED: pip-audit could not ask anybody about {len(wanted)} packages: {why[:300]}")
        return 0
    asked = [row for row in rows if "vulns" in row]
    weak = [(row, each) for row in asked for each in row["vulns"]]
    for row, each in weak:
        print(f"{row['name']} {row['version']}: {each['id']}, mended in {', '.join(each['fix_versions']) or 'no version yet'}")
    unknown = [row["name"] for row in rows if "vulns" not in row]
    if unknown:
        print(f"NOT AUDITED: {len(unknown)} of {len(rows)} packages are not known to the index: {', '.join(unknown)}")
    print(f"{len(asked)} packages audited, {len(weak)} known weaknesses")
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())
