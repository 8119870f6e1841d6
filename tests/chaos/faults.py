"""Upstream trouble at every stage of a stream, and what of it reaches the client.

    python tests/chaos/faults.py [-n 10000] [-c 50] [--seed 1]

A flaky upstream (flaky.py) in front of the embedded one fails at each stage, in each way, for one attempt or for all. Each stream must come
out identical to the character, or as an honest error; none may hang, be cut silently, be doubled, or leave a task, a socket or memory
behind. Prints the table of docs/reliability.md; the exit code is 0 only if all that holds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from chaos.flaky import BY_CONNECT, IMPOSSIBLE, KINDS, STAGES, Deaf, Flaky, drawn
from support.client import ask

ROOT: Final = Path(__file__).parents[2]
TEXTS: Final = 12  # different answers of each API
LIMIT_S: Final = 30.0  # a stream that takes longer hangs; all clocks together are shorter
PATHS: Final = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
CONFIG: Final = """
upstreams:
  - {{name: flaky, base_url: "http://127.0.0.1:{flaky}"}}
  - {{name: refused, base_url: "http://127.0.0.1:{refused}"}}
  - {{name: deaf, base_url: "http://127.0.0.1:{deaf}"}}
routes:
  - {{models: ["refused*once"], targets: [{{upstream: refused, model: {model}}}], fallbacks: [{{upstream: flaky, model: {model}}}]}}
  - {{models: ["refused*"], targets: [{{upstream: refused, model: {model}}}]}}
  - {{models: ["deaf*once"], targets: [{{upstream: deaf, model: {model}}}], fallbacks: [{{upstream: flaky, model: {model}}}]}}
  - {{models: ["deaf*"], targets: [{{upstream: deaf, model: {model}}}]}}
retry: {{base: 20ms, cap: 200ms, bucket: 10000, share: 1}}
clocks: {{connect: 500ms, headers: 1s, first_content: 1s, silence: 1s, closing: 300ms}}
heartbeat: {{every: 400ms}}
log: {{level: info}}
"""
MODEL: Final = "pauses"  # 60 tokens, an event each; their times are the flaky upstream's own


@dataclass
class Figures:
    """outcomes: by (stage, kind), what came of it. wrong: what must not be, in words."""

    outcomes: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    streams: int = 0

    def add(self, place: tuple[str, str], outcome: str, words: str) -> None:
        self.outcomes.setdefault(place, Counter())[outcome] += 1
        self.streams += 1
        if outcome not in ("identical", "error"):
            self.wrong.append(f"{outcome}: {words}")


def body_of(api: str, model: str, seed: int) -> bytes:
    asked: dict[str, Any] = {"model": model, "stream": True, "seed": seed, "max_tokens": 60}
    if api == "responses":
        asked = {"model": model, "stream": True, "seed": seed, "max_output_tokens": 60, "input": "go"}
    else:
        asked["messages"] = [{"role": "user", "content": "go"}]
    return json.dumps(asked).encode()


def said(api: str, datas: list[str]) -> tuple[str, bool, bool]:
    """Text, whether the API's own end was there, whether an error was."""
    text, ended, error = "", False, False
    for data in datas:
        if data == "[DONE]":
            ended = True
            continue
        top = json.loads(data)
        kind = top.get("type", "")
        error |= ("error" in top and top["error"] is not None) or kind in ("error", "response.failed")
        if api == "chat":
            text += "".join(choice["delta"].get("content") or "" for choice in top.get("choices", ()))
        elif api == "messages":
            text += (top.get("delta") or {}).get("text", "")
            ended |= kind == "message_stop"
        else:
            text += top["delta"] if kind == "response.output_text.delta" else ""
            ended |= kind in ("response.completed", "response.incomplete")
    return text, ended, error


class Run:
    def __init__(self, port: int, flaky: Flaky, seed: int) -> None:
        self._port = port
        self._flaky = flaky
        self._seed = seed
        self.figures = Figures()

    async def one(self, number: int) -> None:
        chance = random.Random(f"{self._seed}.{number}")
        stage, kind, times = drawn(chance)
        api, seed = chance.choice(list(PATHS)), chance.randrange(TEXTS)
        expected = said(
            api,
            [event.split(b"data: ", 1)[1].decode().strip() for event in await self._flaky.events(PATHS[api], body_of(api, MODEL, seed))],
        )[0]
        model = MODEL
        if stage == "connect":
            model = f"{BY_CONNECT[kind]}-{'once' if times == 1 else 'always'}"
        fields = [
            ("content-type", "application/json"),
            ("authorization", "Bearer x"),
            ("x-chaos", f"{stage}/{kind}/{times}"),
            ("x-chaos-id", str(number)),
        ]
        words = f"stream {number} ({api}, {stage}, {kind}, {times} times)"
        try:
            async with asyncio.timeout(LIMIT_S):
                answer = await ask(self._port, "POST", PATHS[api], body_of(api, model, seed), fields)
        except TimeoutError:
            self.figures.add((stage, kind), "hung", words)
            return
        except (OSError, AssertionError) as error:
            self.figures.add((stage, kind), "lost", f"{words}: {error!r}")
            return
        if answer.status != 200:
            told = answer.whole and "error" in answer.json()
            self.figures.add((stage, kind), "error" if told else "cut silently", words)
            return
        text, ended, error = said(api, [event.data for event in answer.events])
        if error:
            good = answer.whole and expected.startswith(text)
            self.figures.add((stage, kind), "error" if good else "not a beginning of the text", words)
        elif ended and answer.whole and text == expected:
            self.figures.add((stage, kind), "identical", words)
        else:
            self.figures.add(
                (stage, kind), "cut silently" if expected.startswith(text) else "wrong text", f"{words}: {len(text)} of {len(expected)}"
            )

    async def all(self, streams: int, at_once: int) -> None:
        numbers = iter(range(streams))
        began, shown = time.monotonic(), 0.0

        async def worker() -> None:
            nonlocal shown
            for number in numbers:
                await self.one(number)
                if time.monotonic() - shown > 5:
                    shown = time.monotonic()
                    sys.stderr.write(f"\r{self.figures.streams}/{streams} streams, {shown - began:.0f} s, {len(self.figures.wrong)} wrong ")
                    sys.stderr.flush()

        await asyncio.gather(*(worker() for _ in range(at_once)))
        sys.stderr.write("\n")


def table(figures: Figures) -> str:
    """Identical / honest error, by stage and kind."""
    lines = ["| where | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for stage in STAGES:
        cells = []
        for kind in KINDS:
            counts = figures.outcomes.get((stage, kind), Counter())
            bad = sum(count for outcome, count in counts.items() if outcome not in ("identical", "error"))
            cells.append(
                "" if (stage, kind) in IMPOSSIBLE else f"{counts['identical']} / {counts['error']}" + (f" / **{bad}**" if bad else "")
            )
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


class Child:
    """A process that writes lines to its standard output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            return (await self.process.stdout.readline()).decode()

    async def held(self) -> dict[str, int]:
        self.process.send_signal(signal.SIGUSR1)
        found: dict[str, int] = json.loads(await self.line())
        return found


@contextlib.asynccontextmanager
async def child(*command: str, **options: Any) -> Any:
    process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, **options)
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def port_of(child: Child) -> int:
    """From the line `...http://127.0.0.1:PORT...` that a server writes when it listens."""
    reader = child.process.stderr
    assert reader is not None
    async with asyncio.timeout(30):
        while line := (await reader.readline()).decode():
            if "127.0.0.1:" in line:
                return int("".join(char for char in line.split("127.0.0.1:")[1][:5] if char.isdigit()))
    raise RuntimeError("it did not begin to listen")


async def main(arguments: argparse.Namespace) -> bool:
    sys.stderr.write(f"seed {arguments.seed}, {arguments.streams} streams, {arguments.at_once} at once\n")
    async with contextlib.AsyncExitStack() as stack:
        pipe = {"stderr": asyncio.subprocess.PIPE}
        origin = await stack.enter_async_context(child("-u", "-m", "gateway", "simulate", "--port", "0"))
        flaky = Flaky(int((await origin.line()).split("127.0.0.1:")[1].split("/")[0]))
        server = await asyncio.start_server(flaky.serve, "127.0.0.1", 0, limit=2**20)
        deaf = Deaf()
        stack.callback(deaf.close)
        refused = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        ports = {"flaky": server.sockets[0].getsockname()[1], "refused": refused.sockets[0].getsockname()[1], "deaf": deaf.port}
        refused.close()
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "decluster.yaml"
        config.write_text(CONFIG.format(**ports, model=MODEL))
        gateway = await stack.enter_async_context(child("tests/chaos/gateway_process.py", str(config), **pipe))
        port = await port_of(gateway)
        log = asyncio.create_task(_drain(gateway))
        stack.callback(log.cancel)
        warm = Run(port, flaky, -1)
        await warm.all(min(200, arguments.streams), arguments.at_once)
        await asyncio.sleep(2.5)  # what lingers after a whole answer
        before = await gateway.held()
        run = Run(port, flaky, arguments.seed)
        flaky.attempts.clear()
        began = time.monotonic()
        await run.all(arguments.streams, arguments.at_once)
        took_s = time.monotonic() - began
        await asyncio.sleep(2.5)
        after = await gateway.held()
        server.close()
    figures = run.figures
    totals: Counter[str] = sum(figures.outcomes.values(), Counter())
    print(table(figures))
    print(f"\n{figures.streams} streams, {arguments.at_once} at once, seed {arguments.seed}, {took_s:.0f} s: {dict(totals)}")
    print(f"attempts at the upstream a stream: {sum(flaky.attempts.values()) / max(1, figures.streams):.2f}")
    print(f"held before: {before}\nheld after:  {after}")
    for words in figures.wrong[:20]:
        print("WRONG", words)
    left = after["tasks"] > before["tasks"] + 2 or after["files"] > before["files"] + arguments.at_once or after["streams"] > 0
    grown = after["resident_kib"] > before["resident_kib"] * 1.25 + 16 * 1024
    return not figures.wrong and not left and not grown


async def _drain(child: Child) -> None:
    assert child.process.stderr is not None
    while line := await child.process.stderr.readline():
        if b'"level":"error"' in line or b"Traceback" in line:
            sys.stderr.write(line.decode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--streams", type=int, default=10_000)
    parser.add_argument("-c", "--at-once", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(0 if asyncio.run(main(parser.parse_args())) else 1)
