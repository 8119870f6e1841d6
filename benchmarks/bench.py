"""Plays loads through contestants, round by round, and says on standard error what it does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import contestants, rounds
from benchmarks.contestants import DIRECT, Contestant, NotThereError, Running, Upstream
from benchmarks.peers import PEERS
from benchmarks.report import Plays
from benchmarks.rounds import Play

Playing = Callable[[Running], Awaitable[Play]]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass
class Bench:
    """Starts each contestant afresh for each load, so that none pays for what it did before. absent: and what would bring them."""

    folder: Path
    upstreams: Mapping[Upstream, tuple[int, subprocess.Popen[bytes]]]
    count: int
    quick: bool = False
    build: Path | None = None
    absent: dict[str, str] = field(default_factory=dict)

    def beside(self, *names: Contestant) -> tuple[Contestant, ...]:
        """What is only there beside a build."""
        return names if self.build is not None else ()

    @asynccontextmanager
    async def running(self, names: Sequence[Contestant]) -> AsyncIterator[list[Running]]:
        """Those that are there and answer, until the end."""
        out: list[Running] = []
        try:
            for each in names:
                try:
                    out.append(await self._started(each))
                except (NotThereError, RuntimeError) as problem:
                    self.absent[each.name] = str(problem)
                    say(f"    {each.name} takes no part: {problem}")
            yield out
        finally:
            for started in out:
                started.stop()

    async def _started(self, contestant: Contestant) -> Running:
        running = contestants.start(contestant, self.folder, self.upstreams[contestant.upstream][0], self.build)
        if contestant in PEERS and (await rounds.short(running, 16)).failed:
            running.stop()
            raise RuntimeError("it starts, and does not answer")
        return running

    async def play(self, names: Sequence[Contestant], playing: Playing, *, direct: bool = False, count: int | None = None) -> Plays:
        """direct: nothing in the middle takes part too."""
        async with self.running(names) as everyone:
            players = list(everyone)
            if direct:
                port, process = self.upstreams[names[0].upstream]
                players.append(Running(Contestant(DIRECT, lambda place: ([], {})), port, process, 0.0))
            out: Plays = {each.contestant.name: [] for each in players}
            for _ in range(count or self.count):
                for each in players:
                    out[each.contestant.name].append(await playing(each))
        for name, plays in out.items():
            say(f"    {name}: {len(plays)} rounds, {sum(play.failed for play in plays)} failed")
        return out
