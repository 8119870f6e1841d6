"""A rolling restart under load: two replicas of two workers, one Redis, the real HAProxy; one replica is restarted after the other.

    python tests/fleet/rolling.py [--streams 200] [--grace 15] [--long 20]

`--streams` run when the restarts begin, most of them shorter than the grace, `--long` of them longer; new short ones begin all the while, 10 a
second. Prints how each ended; the exit code is 0 only if none was cut: each is whole to the character, or outlasted the grace and was told so,
and then gets from the other replica all that was recorded, and the whole answer when it asks anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fleet.fleet import Fleet, Talk, fleet

START_S = 60.0  # for all streams to have begun; none does where something is wrong with the gateway


@dataclass
class Outcome:
    """Of all streams, by how they ended."""

    whole: int = 0
    told: int = 0  # outlasted the grace: the honest error
    resumed: int = 0  # of these: asked again by the same key, and had all that was recorded
    anew: int = 0  # of these: whole when asked by a new key
    refused: Counter[str] = field(default_factory=Counter)  # before they began, by status; asked again
    faults: list[str] = field(default_factory=list)
    restarts: list[tuple[int, float]] = field(default_factory=list)  # exit code, seconds
    resident_mib: list[int] = field(default_factory=list)


async def one(made: Fleet, talk: Talk, outcome: Outcome) -> None:
    for _ in range(20):
        try:
            await talk.listen(made.proxy)
        except OSError as error:
            outcome.faults.append(f"{talk.seed}: {error}")
            return
        if talk.status == 200:
            break
        outcome.refused[str(talk.status)] += 1
        await asyncio.sleep(0.5)
    if talk.complete:
        outcome.whole += 1
        return
    if talk.error != "shutting_down" or not talk.whole or not talk.is_a_beginning:
        outcome.faults.append(f"{talk.seed}: status {talk.status}, {len(talk.text)} characters, ended by {talk.ending[:200]!r}")
        return
    outcome.told += 1
    again = Talk(talk.seed, talk.count, talk.every_s, last=str(max(1, int(talk.last) // 2)))
    await again.listen(made.proxy)
    if again.status == 200 and talk.text.endswith(again.text) and again.error == "shutting_down" and again.last == talk.last:
        outcome.resumed += 1
    else:
        outcome.faults.append(f"{talk.seed} resumed: status {again.status}, ended by {again.ending[:200]!r}")
    anew = Talk(talk.seed, talk.count, 0.0)
    await anew.listen(made.proxy, f"{talk.seed} anew")
    if anew.complete:
        outcome.anew += 1


async def trickle(made: Fleet, outcome: Outcome, every_s: float) -> int:
    """New streams of half a second until cancelled; how many."""
    number, tasks = 0, set()
    try:
        while True:
            number += 1
            tasks.add(asyncio.create_task(one(made, Talk(f"n{number}", 5), outcome)))
            await asyncio.sleep(every_s)
    except asyncio.CancelledError:
        await asyncio.gather(*tasks)
        return number


async def roll(folder: Path, streams: int, long: int, grace_s: float, every_s: float = 0.2) -> tuple[Outcome, int]:
    """The outcome, and how many streams there were in all."""
    outcome, chance = Outcome(), random.Random(1)
    settings = {"shutdown": {"grace": f"{grace_s}s"}, "resume": {"lease": "2s"}}
    async with fleet(folder, settings, proxied=True) as made:
        ends = [chance.uniform(0.3, 0.8) * grace_s for _ in range(streams - long)] + [grace_s * 6] * long
        talks = [Talk(f"s{number}", int(end / every_s), every_s) for number, end in enumerate(ends)]
        running = [asyncio.create_task(one(made, talk, outcome)) for talk in talks]
        async with asyncio.timeout(START_S):
            while sum(made.talker.asked.values()) < streams:
                await asyncio.sleep(0.05)
        news = asyncio.create_task(trickle(made, outcome, 0.1))
        for number, replica in enumerate(made.replicas):
            outcome.resident_mib += replica.resident_mib()
            began = time.monotonic()
            code = await made.restart(number, grace_s + 30)
            outcome.restarts.append((code, time.monotonic() - began))
        news.cancel()
        new = await news
        for task in running:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        most = max(made.talker.asked[talk.seed] for talk in talks[: streams - long])
        if most > 1:
            outcome.faults.append(f"a stream was generated {most} times")
    return outcome, streams + new


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--long", type=int, default=20)
    parser.add_argument("--grace", type=float, default=15.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome, number = asyncio.run(roll(Path(folder), arguments.streams, arguments.long, arguments.grace))
    print(
        f"streams                          {number} ({arguments.streams} ran at the first restart, {arguments.long} of them outlast the grace)"
    )
    print(f"whole to the character           {outcome.whole}")
    print(f"told that the gateway shuts down {outcome.told}")
    print(f"  of them resumed elsewhere      {outcome.resumed} (all that was recorded), whole when asked anew {outcome.anew}")
    print(f"refused before they began        {dict(outcome.refused)} (asked again half a second later)")
    print(f"restarts (exit code, seconds)    {[(code, round(took, 1)) for code, took in outcome.restarts]}")
    print(f"resident MiB of each worker      {outcome.resident_mib}")
    for fault in outcome.faults[:10]:
        print(f"  {fault}")
    print(f"cut                              {len(outcome.faults)}")
    whole = outcome.whole + outcome.told == number and outcome.told == outcome.resumed == outcome.anew
    return 0 if whole and not outcome.faults else 1


if __name__ == "__main__":
    sys.exit(main())
