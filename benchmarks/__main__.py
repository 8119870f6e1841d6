"""Takes the ratios and writes docs/performance.md: `python -m benchmarks`.

nginx must be installed (Debian: `apt install nginx-light`). Peers take part where they are: LiteLLM's proxy (`pip install
'litellm[proxy]'` in an environment of its own, BENCH_LITELLM = its program `litellm`), Portkey's gateway (`npm install
@portkey-ai/gateway`, BENCH_PORTKEY = its build/start-server.js). With --only or --scale the tables are printed, and no file is written
that was not named.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

try:
    import trustme
    import uvloop
except ImportError as error:
    raise SystemExit(f"{error.name} is missing: pip install -e '.[test]'") from None

from benchmarks import contestants, report, scale
from benchmarks.bench import Bench, say
from benchmarks.contestants import NGINX, ROOT, NotThereError, Upstream
from benchmarks.peers import PEERS
from benchmarks.tables import SECTIONS, Section

OUT: Final = ROOT / "docs" / "performance.md"


@contextmanager
def upstreams(folder: Path) -> Iterator[dict[Upstream, tuple[int, subprocess.Popen[bytes]]]]:
    """All that contestants have behind them, each in a process of its own."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(f"{folder}/ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(f"{folder}/own.pem")
    kinds: dict[Upstream, list[str]] = {"plain": ["upstream"], "tls": ["upstream", f"{folder}/own.pem"], "either": ["either"]}
    out: dict[Upstream, tuple[int, subprocess.Popen[bytes]]] = {}
    try:
        for kind, (module, *more) in kinds.items():
            port = contestants.free_port()
            command = [sys.executable, "-m", f"benchmarks.{module}", str(port), *more]
            out[kind] = port, contestants.run(command, port, contestants.package(None), folder)
        yield out
    finally:
        for _, process in out.values():
            process.kill()
            process.wait()


async def take(bench: Bench, sections: dict[str, Section]) -> list[str]:
    out: list[str] = []
    for name, section in sections.items():
        say(name)
        out += await section(bench)
    return out


def versions(absent: dict[str, str]) -> str:
    """Of what was compared; who was not there is named, so that no table hides it."""
    out = []
    for each in (NGINX, *PEERS):
        with suppress(NotThereError):
            if each.name not in absent:
                out.append(f"{each.name} {each.version()}")
    return ", ".join([*out, *(f"no {each.name}" for each in PEERS if each.name in absent)])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer requests and streams, two rounds")
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS, "scale"], metavar="SECTION", help=f"of {', '.join(SECTIONS)}, scale")
    parser.add_argument(
        "--scale", type=int, nargs="+", metavar="N", help="streams at once, instead of " + " ".join(map(str, scale.STREAMS))
    )
    builds = parser.add_mutually_exclusive_group()
    builds.add_argument("--compiled", action="store_true", help="compile this tree (hatch_build.py) and run that, with the tree beside it")
    builds.add_argument("--build", type=Path, metavar="DIR", help="the same with a folder that holds a `gateway` package already")
    parser.add_argument("--out", type=Path, help=f"instead of {OUT.relative_to(ROOT)}")
    return parser.parse_args()


def arguments(given: argparse.Namespace, count: int) -> Sequence[str]:
    """As they could be given again, without where things are on this machine."""
    out = ["--quick"] if given.quick else ["--rounds", str(count)]
    out += ["--only", *given.only] if given.only else []
    out += ["--scale", *map(str, given.scale)] if given.scale else []
    if given.compiled:
        return [*out, "--compiled"]
    return [*out, "--build", "DIR"] if given.build else out


def compile_into(folder: Path) -> Path:
    """The compiled build of this tree, as pip makes it."""
    say("compiling")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(ROOT)]
    subprocess.run(command, env={**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}, check=True)  # noqa: S603  # our own
    return folder


async def main() -> int:
    given = options()
    count = 2 if given.quick else given.rounds
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft != resource.RLIM_INFINITY else soft, hard))  # for all that is started here
    streams = given.scale or ((100, 500) if given.quick else scale.STREAMS)
    every: dict[str, Section] = {**SECTIONS, "scale": partial(_scale, streams=streams)}
    sections = {name: section for name, section in every.items() if not given.only or name in given.only}
    try:
        NGINX.version()
    except NotThereError as problem:
        raise SystemExit(f"nginx is what all is compared with: {problem}") from None
    if (given.build or given.compiled) and contestants.compiled(ROOT):
        raise SystemExit(
            "this tree's own modules are compiled in place: delete gateway/**/*.so, or what is called interpreted would not be"
        )
    with tempfile.TemporaryDirectory() as name, upstreams(Path(name)) as behind:
        build = compile_into(Path(name) / "build") if given.compiled else given.build
        built = contestants.compiled(build or ROOT)
        bench = Bench(Path(name), behind, count, given.quick, build)
        tables = await take(bench, sections)
    text = "\n".join([report.head(count, arguments(given, count), versions(bench.absent), built), *tables])
    out = given.out or (None if given.only or given.scale else OUT)
    if out is None:
        print(text)
    else:
        out.write_text(text)
        say(f"written: {out}")
    return 0


async def _scale(bench: Bench, streams: Sequence[int]) -> list[str]:
    return [await scale.take(bench, streams)]


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
