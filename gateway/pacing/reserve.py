"""The last tokens in hand: what a fast stream keeps back to speak with if its upstream falls silent, and when they leave.

Owns how many and how far apart. Knows nothing of pieces, promises or the ceiling. Tokens, seconds. Three tokens of a stream at 187 a second
came within 16 ms, so keeping them until the next arrives delays by that much; let go one by one they bridge more than half a second
that would else be a freeze. A slow stream keeps none: each of its tokens would wait longer than the eye forgives.
"""

from __future__ import annotations

from typing import Final

# after so long without text one more leaves: with a frame's delay and the network's it is there before 250 ms, a stall
PULSE_S: Final = 0.215
_KEPT_S: Final = 0.018  # of the stream's text is kept at the most: under a frame, which nobody sees,
MOST_TOKENS: Final = 4.0  # and not more than what bridges the usual half second, which is two words
_LEAST_TOKENS: Final = 1.5  # less is not one word, and a stream of 50 tokens/s stays clear of it with long words too


def kept_tokens(rate: float) -> float:
    """What a steady stream of `rate` tokens/s keeps back until the next arrives; 0.0 for a slow one."""
    tokens = rate * _KEPT_S
    if tokens < _LEAST_TOKENS:
        return 0.0
    return tokens if tokens < MOST_TOKENS else MOST_TOKENS
