"""The truncating stages over candidates: each keeps some of them and renormalises over those.

A stage of the table is `stage_NAME(params, vocab, moment)`, which returns a cut, or None if the stage is off.

All comparisons are of float64 products with exact integer sums, so the same tokens are kept whether the candidates are
the whole vocabulary or only a selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.sampling.native_rows import UNIT, Ids, Odds, Row, log_total, odds_of, order
from cutaway.sampling.params import SamplingParams

BIT = 0.6931471805599453
"""Nats in a bit."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tokens that can still be drawn, best first (ties: lower id first).

    ids: int32 [n]; odds: int64 [n] in units of 2^-44 of the best token's; scaled: float64 [n], their logarithms
    (logit - best) / temperature.
    """

    ids: Ids
    odds: Odds
    scaled: NDArray[np.float64]

    def keep(self, which: slice | NDArray[np.bool_]) -> Candidates:
        return Candidates(self.ids[which], self.odds[which], self.scaled[which])

    @property
    def total(self) -> int:
        return int(self.odds.sum())


def candidates(row: Row, top: float, inverse: float, count: int) -> Candidates:
    """The `count` best of `row` (float32 [vocab]) at temperature 1 / inverse; top: the row's best logit."""
    ids = order(row, count)
    logits = row[ids]
    return Candidates(ids, odds_of(logits, top, inverse), (logits.astype(np.float64) - top) * inverse)


def top_k(these: Candidates, k: int) -> Candidates:
    """The k best."""
    return these.keep(slice(k))


def top_p(these: Candidates, share: float) -> Candidates:
    """The smallest set of best tokens with at least `share` of the mass, at least one. Holtzman et al. 2020, "nucleus
    sampling"."""
    reached = np.cumsum(these.odds).astype(np.float64) >= share * float(these.total)
    return these.keep(slice(int(np.argmax(reached)) + 1))


def min_p(these: Candidates, share: float) -> Candidates:
    """The tokens at least `share` times as probable as the best. Nguyen et al. 2024."""
    return these.keep(these.odds.astype(np.float64) >= share * UNIT)


def typical_p(these: Candidates, share: float) -> Candidates:
    """The smallest set with `share` of the mass, taken by the distance of the surprise from the entropy (ties: better
    first). Meister et al. 2022, "Locally typical sampling"."""
    total = these.total
    normaliser = log_total(total)
    spread = np.rint(these.odds * -these.scaled).astype(np.int64)  # odds of 0 may meet any scaled logit
    distance = np.abs(normaliser - these.scaled - (normaliser + int(spread.sum()) / total))
    by_distance = np.argsort(distance, kind="stable")
    reached = np.cumsum(these.odds[by_distance]).astype(np.float64) >= share * float(total)
    kept = np.zeros(len(distance), np.bool_)
    kept[by_distance[: int(np.argmax(reached)) + 1]] = True
    return these.keep(kept)


def xtc(these: Candidates, threshold: float, unheated: Odds | None = None) -> Candidates:
    """Without the tokens that have at least `threshold` of the mass, except the least probable of them ("exclude top
    choices", p-e-w 2024). The caller draws for each token whether this applies. unheated: the candidates' odds at
    temperature 1, whose mass counts: llama.cpp applies XTC before the temperature."""
    odds = these.odds if unheated is None else unheated
    above = int((odds.astype(np.float64) >= threshold * float(int(odds.sum()))).sum())
    return these.keep(slice(max(0, above - 1), None))


def surprises(these: Candidates) -> NDArray[np.float64]:
    """Bits: -log2 of each token's share."""
    return (log_total(these.total) - these.scaled) / BIT


def mirostat(these: Candidates, most: float) -> Candidates:
    """The tokens whose surprise is at most `most` bits, at least the best (Basu et al. 2021, "Mirostat", algorithm
    2)."""
    which = surprises(these) <= most
    which[0] = True
    return these.keep(which)


@dataclass(frozen=True, slots=True)
class Moment:
    """Values of the present token that some stages need. coin: uniform in [0, 1), for XTC. unheated: the odds of
    candidates at temperature 1, for XTC. most_surprise: in bits (mirostat)."""

    coin: float = 0.0
    most_surprise: float = math.inf
    unheated: Callable[[Ids], Odds] | None = None


Cut = Callable[[Candidates], Candidates]


def stage_top_k(params: SamplingParams, vocab: int, moment: Moment) -> Cut | None:
    k = int(params.top_k)
    return (lambda these: top_k(these, k)) if 0 < k < vocab else None


def stage_top_p(params: SamplingParams, vocab: int, moment: Moment) -> Cut | None:
    share = float(params.top_p)
    return (lambda these: top_p(these, share)) if share < 1 else None


def stage_min_p(params: SamplingParams, vocab: int, moment: Moment) -> Cut | None:
    share = float(params.min_p)
    return (lambda these: min_p(these, share)) if share > 0 else None


def stage_typical_p(params: SamplingParams, vocab: int, moment: Moment) -> Cut | None:
    share = float(params.typical_p)
    return (lambda these: typical_p(these, share)) if share < 1 else None


def stage_xtc(params: SamplingParams, vocab: int, moment: Moment) -> Cut | None:
    threshold = float(params.xtc_threshold)
    if moment.coin >= params.xtc_probability:
        return None

    def cut(these: Candidates) -> Candidates:
        return xtc(these, threshold, None if moment.unheated is None else moment.unheated(these.ids))

    return cut


def stage_mirostat(params: SamplingParams, vocab: int, moment: Moment) -> Cut | None:
    return (lambda these: mirostat(these, moment.most_surprise)) if params.mirostat == 2 else None


def draw(these: Candidates, uniform53: int) -> int:
    """The index in `these` of the draw: the first whose running total exceeds uniform * total."""
    target = (uniform53 * these.total) >> 53
    return int(np.searchsorted(np.cumsum(these.odds), target, side="right"))
