"""The names of what stands in Redis. Keys and credentials stand there as digests, texts as they were sent.

k <name>   claim: "<uid> <fingerprint>"      s <uid>   stream: 0-1 head, 0-2 refusal, <number>-0 frames, <next number>-1 end
l <uid>    lease of who records              a <uid>   somebody follows it elsewhere
r <name>   a Responses answer: the name of its claim
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PREFIX: Final = "decluster:1:"  # with the number of this form
REMEMBERED_S: Final = 3600  # that a claim outlives its stream, to tell "no longer" from "never"


@dataclass(frozen=True, slots=True)
class Claim:
    """Of a stream. mine: it is to be recorded here. gone: it was, and nothing of it is held."""

    name: str
    uid: str
    fingerprint: str
    mine: bool = False
    gone: bool = False


def key(kind: str, name: str) -> str:
    return f"{PREFIX}{kind}:{name}"


def ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))
