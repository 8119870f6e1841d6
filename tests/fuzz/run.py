"""Mutations of the corpora against everything that reads bytes of strangers, for as long as is wanted.

    python tests/fuzz/run.py --executions 1000000            a million for each target
    python tests/fuzz/run.py --only "stream chat" --seed 7   one target, from a seed that was printed
    python tests/fuzz/run.py --atheris sse -- -runs=1000000  led by coverage, where atheris is installed

An execution is one input, fed in reads cut by chance. What fails is printed with the seed and the number that make it again, and kept
(`--keep FOLDER`). The exit code is the number of targets that failed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

if "--atheris" in sys.argv:  # what is to be led by is instrumented as it is imported
    import atheris

    with atheris.instrument_imports(include=["gateway", "h2", "hpack"], enable_loader_override=False):
        import fuzz.cores
        import fuzz.wires

from fuzz.cores import ALL, frames  # noqa: E402
from fuzz.mutations import mutated  # noqa: E402
from fuzz.wires import Http1, Http2, Incoming, http2_answers, loop_for_fuzzing  # noqa: E402

Target = Callable[[bytes, random.Random], None]

HTTP1_ANSWERS: Final = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n3;x=y\r\n: {\r\n0\r\nX-T: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: keep-alive\r\n\r\nhello world",
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.0 404 Not Found\r\nServer: y\r\n\r\nuntil the end",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nX: " + b"a" * 300 + b"\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
]
HTTP1_REQUESTS: Final = [
    b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\nAuthorization: Bearer k\r\n\r\n{"stream":1}\n',
    b"POST /v1/files HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n4\r\nabcd\r\n1;e=f\r\nz\r\n0\r\nX-T: 1\r\n\r\n",
    b"GET /v1/models?x=%2e HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" * 2,
    b"GET / HTTP/1.0\r\n\r\n",
    b"OPTIONS http://a/v1/x HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
]


_LOOPS: Final[list[asyncio.AbstractEventLoop]] = []


def close() -> None:
    """The loops of all targets so far."""
    while _LOOPS:
        _LOOPS.pop().close()
    asyncio.set_event_loop(None)


def targets() -> dict[str, tuple[Target, list[bytes]]]:
    loop = loop_for_fuzzing()
    _LOOPS.append(loop)
    found: dict[str, tuple[Target, list[bytes]]] = {
        "http/1.1 answers": (Http1(loop), HTTP1_ANSWERS),
        "http/1.1 requests": (Incoming(loop), HTTP1_REQUESTS),
        "http/2 answers": (Http2(loop), http2_answers()),
        "http/2 frames": (frames, http2_answers()),
    }
    found |= {name: (target, corpus()) for name, (target, corpus) in ALL.items()}
    return found


def fuzz(target: Target, corpus: list[bytes], executions: int, seed: int) -> tuple[int, bytes, BaseException] | None:
    """The first execution that failed, its input and its error. Each has chance of its own, so that any can be repeated alone."""
    for number in range(executions):
        data, chance = made(corpus, seed, number)
        try:
            target(data, chance)
        except Exception as error:
            return number, data, error
    return None


def made(corpus: list[bytes], seed: int, number: int) -> tuple[bytes, random.Random]:
    chance = random.Random(seed * 1_000_003 + number)
    data = chance.choice(corpus)
    if len(data) > 2048 and chance.random() < 0.8:  # a part of a long one says as much in less time
        at = data.rfind(b"\n\n", 0, chance.randrange(len(data)) + 1) + 2 if chance.random() < 0.5 else 0
        data = data[max(at, 0) : max(at, 0) + 2048]
    return mutated(chance, data, corpus), chance


def by_coverage(name: str, arguments: list[str]) -> None:
    target, corpus = targets()[name]

    def one(data: bytes) -> None:
        chance = random.Random(data[:4])
        target(data[4:], chance)

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        return (
            bytes(atheris.Mutate(data, size))
            if seed % 3
            else data[:4] + mutated(random.Random(seed), data[4:] or corpus[0], corpus)[: size - 4]
        )

    atheris.Setup([sys.argv[0], *arguments], one, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=100_000, help="for each target")
    parser.add_argument("--seed", type=int, default=None, help="by chance, and printed, unless given")
    parser.add_argument("--only", help="the one target of this name")
    parser.add_argument("--keep", type=Path, help="where inputs that fail are written")
    parser.add_argument("--atheris", metavar="TARGET", help="lead by coverage; what follows -- is libFuzzer's")
    parser.add_argument("rest", nargs="*")
    arguments = parser.parse_args()
    if arguments.atheris:
        by_coverage(arguments.atheris, arguments.rest)
        return 0
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    logging.disable(logging.CRITICAL)  # each refusal is a line
    failed = 0
    for name, (target, corpus) in targets().items():
        if arguments.only not in (None, name):
            continue
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = fuzz(target, corpus, arguments.executions, seed)
        took_s = time.monotonic() - began
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if found is None:
            print(f"{name}: {arguments.executions} executions in {took_s:.0f} s, {grown} KiB more memory at the most", flush=True)
            continue
        failed += 1
        number, data, error = found
        print(f"{name}: FAILED at execution {number} of seed {seed} with {data[:300]!r}", flush=True)
        traceback.print_exception(error)
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            (arguments.keep / f"{name.replace('/', '-')} {seed} {number}").write_bytes(data)
    return failed


if __name__ == "__main__":
    sys.exit(main())
