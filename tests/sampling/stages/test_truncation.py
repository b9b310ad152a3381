"""The truncating stages on distributions whose answer can be read off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutaway.sampling import SamplingParams
from cutaway.sampling.stages.find import truncations
from cutaway.sampling.stages.truncation import Candidates, candidates, draw, min_p, top_k, top_p, typical_p

SHARES = [0.125, 0.5, 0.25, 0.0625, 0.0625]


def whole(shares: list[float] = SHARES, inverse: float = 1.0) -> Candidates:
    row = np.log2(np.array(shares, np.float32)) * np.float32(np.log(2))
    return candidates(row, float(row.max()), inverse, len(row))


def test_order_and_ties() -> None:
    assert whole().ids.tolist() == [1, 2, 0, 3, 4]
    assert whole([0.25] * 4).ids.tolist() == [0, 1, 2, 3]


def test_temperature() -> None:
    odds = whole([0.5, 0.25], inverse=2.0).odds
    assert odds[1] / odds[0] == pytest.approx(0.25, rel=1e-6)


def test_top_k() -> None:
    assert top_k(whole(), 2).ids.tolist() == [1, 2]
    assert top_k(whole(), 99).ids.tolist() == whole().ids.tolist()


@pytest.mark.parametrize(("share", "kept"), [(0.0, 1), (1e-4, 1), (0.49, 1), (0.6, 2), (0.8, 3), (0.9, 4), (0.99, 5)])
def test_top_p(share: float, kept: int) -> None:
    assert top_p(whole(), share).ids.tolist() == [1, 2, 0, 3, 4][:kept]


def test_top_p_at_an_exact_border_stops_there() -> None:
    assert len(top_p(whole([0.25] * 4), 0.5).ids) == 2


def test_top_p_is_over_what_top_k_left() -> None:
    assert top_p(top_k(whole(), 2), 0.6).ids.tolist() == [1]


def test_min_p() -> None:
    assert min_p(whole(), 0.2).ids.tolist() == [1, 2, 0]
    assert min_p(whole(), 1.0).ids.tolist() == [1]
    assert min_p(whole([0.25] * 4), 1.0).ids.tolist() == [0, 1, 2, 3]


def test_typical_p() -> None:
    # entropy 1.875 bits; surprises 1, 2, 3, 4, 4 bits: 0.25 lies nearest, then 0.5, then 0.125
    assert typical_p(whole(), 0.2).ids.tolist() == [2]
    assert typical_p(whole(), 0.3).ids.tolist() == [1, 2]
    assert typical_p(whole(), 0.8).ids.tolist() == [1, 2, 0]
    assert typical_p(whole([0.25] * 4), 0.5).ids.tolist() == [0, 1]


def test_only_what_is_asked_for_runs() -> None:
    def names(**options: Any) -> list[str]:
        return [name for name, _ in truncations(SamplingParams(**options), 10)]

    assert names() == []
    assert names(top_k=10) == names(top_k=-1) == []
    assert names(top_k=9, top_p=0.5, min_p=0.1, typical_p=0.9) == ["top_k", "top_p", "min_p", "typical_p"]


def test_draw() -> None:
    these = whole()
    assert [draw(these, int(u * 2**53)) for u in (0.0, 0.499, 0.501, 0.749, 0.751, 0.99999)] == [0, 0, 1, 1, 2, 4]
