"""The Dockerfile without Docker: its steps done in a clean Debian tree, and what comes of it run as a container runtime would.

    sudo python tests/deploy/image.py            # with debootstrap; about five minutes, a gigabyte of temporary files

As root on Linux. The base is a Debian of that name (--suite) with Python, its headers, and `python` where the official image has it,
/usr/local. Each stage is a copy of it, each RUN a chroot. Then, in namespaces of their own (network, mounts, processes): the read-only tree,
user 10001, the program as process 1, the image's own CMD and HEALTHCHECK, the embedded upstream from a second container, one stream through
both, SIGTERM in the middle of another.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from dockerfile import Stage, read  # noqa: E402 - a script beside it

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How this machine reaches its package index; empty on most.
PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def say(text: str) -> None:
    print(text, flush=True)


def base(suite: str, mirror: str | None, folder: Path) -> None:
    """The stand-in for python:slim."""
    packages = "python3,python3-venv,libpython3-dev,ca-certificates"
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", suite, str(folder), *([mirror] if mirror else [])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ready(folder)


def ready(folder: Path) -> None:
    """`python` and `pip` where the official image has them."""
    if not (folder / "usr/local/bin/pip").exists():
        chroot(folder, ["python3", "-m", "venv", "/usr/local"], {})


def chroot(folder: Path, command: Sequence[str], environment: Mapping[str, str], user: str = "0:0", cwd: str = "/") -> None:
    inner = ["chroot", f"--userspec={user}", str(folder), "/bin/sh", "-c", f"cd {shlex.quote(cwd)} && exec {shlex.join(command)}"]
    subprocess.run(inner, check=True, env={"PATH": PATH, **environment})


class Build:
    """Each stage becomes a folder of its name (the last: `image`) under `work`."""

    def __init__(self, stages: Sequence[Stage], bottom: Path, work: Path) -> None:
        self.stages, self.bottom, self.work = stages, bottom, work

    def run(self) -> Path:
        for stage in self.stages:
            folder = self.work / (stage.name or "image")
            subprocess.run(["cp", "-a", str(self.bottom), str(folder)], check=True)
            for name in ("resolv.conf", "hosts"):
                shutil.copy(f"/etc/{name}", folder / "etc" / name)
            if Path(CERTIFICATES).exists():
                (folder / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
                shutil.copy(CERTIFICATES, folder / CERTIFICATES[1:])
            cwd, environment = "/", {name: os.environ[name] for name in PASSED if name in os.environ} | {"PIP_CERT": CERTIFICATES}
            for name, text in stage.steps:
                if name == "WORKDIR":
                    cwd = text
                    (folder / cwd[1:]).mkdir(parents=True, exist_ok=True)
                elif name == "COPY":
                    *sources, target = text.split()
                    self.copy(sources, folder / os.path.normpath(os.path.join(cwd, target))[1:])
                elif name == "ENV":
                    environment |= stage.environment
                elif name == "ARG" and stage.arguments[text]:
                    environment[text] = stage.arguments[text]
                elif name == "RUN":
                    self.step(folder, cwd, text, environment)
        return self.work / "image"

    def copy(self, sources: Sequence[str], target: Path) -> None:
        if sources[0].startswith("--from="):
            subprocess.run(["cp", "-a", f"{self.work / sources[0].removeprefix('--from=')}{sources[1]}/.", str(target)], check=True)
            return
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, target)

    def step(self, folder: Path, cwd: str, text: str, environment: Mapping[str, str]) -> None:
        say(f"RUN {re.sub(' +', ' ', text)}")
        chroot(folder, ["/bin/sh", "-c", text], environment, cwd=cwd)


def size(path: Path) -> int:
    """As stored, in bytes."""
    return sum(entry.lstat().st_blocks * 512 for entry in [path, *path.rglob("*")] if not entry.is_symlink())


def table(bottom: Path, image: Path) -> None:
    (packages,) = image.glob("usr/local/lib/python3*/site-packages")
    before = {entry.name for entry in (bottom / packages.relative_to(image)).iterdir()}
    sizes: dict[str, int] = {}
    for entry in packages.iterdir():
        if entry.name not in before:
            name = re.split(r"[-.]", entry.name)[0].lower().lstrip("_")
            sizes[name] = sizes.get(name, 0) + size(entry)
    total = sum(sizes.values())
    digest = hashlib.sha256()
    for path in sorted(packages.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(packages)).encode() + b"\0" + path.read_bytes())
    say(f"\nbase                     {size(bottom) / 1e6:7.1f} MB")
    say(f"added by the image       {(size(image) - size(bottom)) / 1e6:7.1f} MB, of which in site-packages {total / 1e6:.1f} MB:")
    for name, amount in sorted(sizes.items(), key=lambda pair: -pair[1])[:14]:
        say(f"  {name:<22} {amount / 1e6:7.1f} MB")
    say(f"  the other {max(0, len(sizes) - 14):<12} {sum(sorted(sizes.values())[:-14]) / 1e6:7.1f} MB")
    say(f"the installed tree's digest: {digest.hexdigest()[:16]} (names and contents)")
    assert not any((image / place).exists() for place in ("usr/bin/cc", "usr/bin/gcc", "usr/bin/strip", "src", "install"))


class Container:
    """Process 1 in a read-only tree, as `user`."""

    def __init__(self, folder: Path, stage: Stage, command: Sequence[str], environment: Mapping[str, str]) -> None:
        inside = ["chroot", f"--userspec={stage.last('USER')}:{stage.last('USER')}", str(folder), *command]
        script = (
            f"mount --bind {folder} {folder} && mount -t proc proc {folder}/proc && "
            f"mount --bind /dev/null {folder}/dev/null && mount -o remount,bind,ro {folder} && exec {shlex.join(inside)}"
        )
        variables = {"PATH": PATH, **stage.environment, **environment}
        self.process = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", script], env=variables)

    @property
    def first(self) -> int:
        """Process 1, as it is called out here."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def ended(self) -> int:
        return self.process.wait(60)


def up(name: bytes) -> None:
    with socket.socket() as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh", name, 0x1))  # SIOCSIFFLAGS, IFF_UP


def stream(model: str, on_first: object = None) -> str:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=60)
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200
    text = answer.readline()
    if callable(on_first):
        on_first()
    return (text + answer.read()).decode()


def until_healthy(health: Sequence[str], folder: Path, stage: Stage) -> None:
    for _ in range(200):
        if subprocess.run(["chroot", str(folder), *health], env={"PATH": PATH}, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise SystemExit("the health check does not come to say yes")


def run(folder: Path, stage: Stage) -> None:
    up(b"lo")
    upstream = Container(folder, stage, [*stage.words("ENTRYPOINT"), "simulate"], {})
    command = [*stage.words("ENTRYPOINT"), *stage.words("CMD")]
    gateway = Container(folder, stage, command, {"DECLUSTER_UPSTREAM": "http://127.0.0.1:9101"})
    until_healthy(stage.words("HEALTHCHECK"), folder, stage)
    say("\nHEALTHCHECK says yes")
    status = Path(f"/proc/{gateway.first}/status").read_text()
    said = {name: value.split() for name, value in re.findall(r"^(\w+):\s*(.*)$", status, re.MULTILINE)}
    assert said["NSpid"][-1] == "1", said["NSpid"]
    assert set(said["Uid"]) == {"10001"}, said["Uid"]
    assert said["Name"] == ["decluster"], said["Name"]
    resident = int(said["VmRSS"][0]) / 1024
    say(f"process 1, user {said['Uid'][0]}, resident {resident:.0f} MB before its first stream")
    probe = ["nsenter", f"--target={gateway.first}", "--mount", "chroot", "--userspec=10001:10001", str(folder), "python", "-c"]
    wrote = subprocess.run([*probe, "open('/x', 'w')"], env={"PATH": PATH}, capture_output=True, text=True, check=False)
    assert "Read-only file system" in wrote.stderr, wrote.stderr
    say("the tree is read-only")
    text = stream("clusters")
    assert text.endswith("data: [DONE]\n\n"), text[-300:]
    say(f"a stream through it: {text.count('data: ')} events, whole")

    def end() -> None:
        os.kill(gateway.first, signal.SIGTERM)

    text = stream("steady", end)
    assert text.endswith("data: [DONE]\n\n"), text[-300:]
    say(f"SIGTERM in mid-stream: {text.count('data: ')} events, whole; exit code {gateway.ended()}")
    os.kill(upstream.first, signal.SIGTERM)
    say(f"the embedded upstream: exit code {upstream.ended()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="trixie", help="Debian's release (default %(default)s, which the official image stands on)")
    parser.add_argument("--mirror", metavar="URL", help="where Debian comes from (default: where debootstrap takes it)")
    parser.add_argument("--base", type=Path, help="a tree that debootstrap has made already")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    stages = read(ROOT / "Dockerfile", dict(pair.split("=", 1) for pair in arguments.build_arg))
    if arguments.run:
        run(arguments.run, stages[-1])
        return 0
    with tempfile.TemporaryDirectory(prefix="decluster-image-") as name:
        work = Path(name)
        bottom = arguments.base
        if bottom is None:
            bottom = work / "base"
            base(arguments.suite, arguments.mirror, bottom)
        ready(bottom)
        image = Build(stages, bottom, work).run()
        table(bottom, image)
        again = [sys.executable, __file__, "--run", str(image)]
        subprocess.run(["unshare", "--net", *again], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
