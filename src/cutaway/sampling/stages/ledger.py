"""What each stage did, measured: only when a recorder looks, over the whole vocabulary, at leisure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cutaway.sampling.native_rows import Ids, Odds, Row, count_before, log_total, measure_row, odds_of
from cutaway.sampling.stages.temperature import entropy_of
from cutaway.trace import StageRecord

_FINE = 2.0**40  # a sum of p * ln(p / q) in these units is exact in int64


@dataclass(frozen=True)
class View:
    """The distribution after a stage. row: float32 [vocab], -inf where a token is out; top, inverse: what scales it.

    What is measured of it is kept: each stage is compared with the one before it and with the model's own.
    """

    name: str
    row: Row
    top: float
    inverse: float

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The tokens that are not out, ascending."""
        return np.flatnonzero(self.row > -np.inf)

    @cached_property
    def measures(self) -> tuple[int, int, int]:
        """Total of the odds, their spread, tokens that are not out: sums of integers, so those that are out may stay
        away."""
        total, spread, finite = measure_row(self.row[self.ids], self.top, self.inverse)
        return total, spread, finite

    @cached_property
    def odds(self) -> Odds:
        """Of `ids`."""
        return odds_of(self.row[self.ids], self.top, self.inverse)

    @property
    def entropy(self) -> float:
        """In nats."""
        return entropy_of(*self.measures[:2])

    @cached_property
    def normaliser(self) -> float:
        return log_total(self.measures[0])

    def logs(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """ln of the tokens' probabilities: float64 [ids], -inf where one is out."""
        return (self.row[ids].astype(np.float64) - self.top) * self.inverse - self.normaliser

    def probability(self, token: int) -> float:
        return int(odds_of(self.row[token : token + 1], self.top, self.inverse)[0]) / self.measures[0]

    def rank(self, token: int) -> int:
        """Its place, from 1; one that is out ranks behind those that are in."""
        return int(count_before(self.row, token)) + 1


@dataclass(slots=True)
class Views:
    """The views of one token, in the order of the stages; the first is the model's own."""

    seen: list[View] = field(default_factory=list)

    def add(self, name: str, row: Row, top: float | None = None, inverse: float = 1.0) -> None:
        self.seen.append(View(name, row.copy(), float(row.max()) if top is None else top, inverse))

    def keep(self, name: str, ids: Ids, *, top: float, inverse: float) -> None:
        """After a stage that left only `ids`."""
        row = np.full_like(self.seen[-1].row, -np.inf)
        row[ids] = self.seen[-1].row[ids]
        self.add(name, row, top, inverse)

    def records(self, token: int) -> tuple[StageRecord, ...]:
        """One record a view; `token` is the one that was chosen."""
        before = [self.seen[0], *self.seen]
        return tuple(stage_record(old, new, token) for old, new in zip(before, self.seen, strict=False))


def stage_record(old: View, new: View, token: int) -> StageRecord:
    """What the stage between two views did; `token` is the one that was chosen."""
    return StageRecord(
        name=new.name,
        kept=new.measures[2],
        entropy=new.entropy,
        kl=0.0 if old is new else divergence(new, old),
        probability=new.probability(token),
        rank=new.rank(token),
    )


def divergence(new: View, old: View) -> float:
    """D(new || old) in nats; infinite where a stage lets in a token that was out."""
    inside = new.odds > 0
    ids, odds = new.ids[inside], new.odds[inside]
    old_logs = old.logs(ids)
    if np.isneginf(old_logs).any():
        return math.inf
    terms = odds / float(odds.sum()) * (new.logs(ids) - old_logs)
    return max(0.0, int(np.rint(terms * _FINE).astype(np.int64).sum()) / _FINE)
