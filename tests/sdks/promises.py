"""What holds for every client: subclass, say how it asks, and these are its tests (`played` and `case` are made in conftest.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from .answers import Json
from .cases import CHAT, CUT_SHORT, REFUSED, REPORTED, Params, chat
from .places import Pairs


class Promises:
    """cases: streams that end well. cut_short: what its exception is, where the gateway has to report a stream that the upstream cut: the
    least that `Outcome.error` has to say of it."""

    cases: ClassVar[Mapping[str, Params]] = CHAT
    asked = staticmethod(chat)
    cut_short: ClassVar[Mapping[str, Json]]

    @classmethod
    def everything(cls) -> dict[str, Params]:
        return {**cls.cases, **{model: cls.asked(model) for model in (*REFUSED, REPORTED, *CUT_SHORT)}}

    def test_a_stream_gives_what_a_direct_call_gives(self, played: Pairs, case: str) -> None:
        direct, gateway = played[case].direct, played[case].gateway
        assert direct.text
        assert direct.error is None, direct.error
        assert gateway == direct

    def test_the_same_text_comes_in_more_pieces_than_from_a_direct_call(self, played: Pairs) -> None:
        """Else these comparisons would say nothing about pacing."""
        pair = played["deltas of a hundred tokens"]
        assert pair.gateway.deltas > pair.direct.deltas

    @pytest.mark.parametrize("model", REFUSED)
    def test_a_refused_request_raises_what_a_direct_call_raises(self, played: Pairs, model: str) -> None:
        pair = played[model]
        assert pair.direct.error is not None
        assert pair.gateway == pair.direct

    def test_an_error_in_the_stream_is_told_as_by_a_direct_call_after_the_same_text(self, played: Pairs) -> None:
        pair = played[REPORTED]
        assert pair.direct.text
        assert pair.gateway == pair.direct

    @pytest.mark.parametrize("model", CUT_SHORT)
    def test_a_stream_that_is_cut_short_raises_after_all_text_that_came(self, played: Pairs, model: str) -> None:
        pair = played[model]
        assert pair.gateway.error is not None
        assert pair.gateway.error.items() >= self.cut_short[model].items()
        assert pair.direct.text
        assert pair.gateway.text.startswith(pair.direct.text)
