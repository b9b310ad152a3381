"""What each stage did, measured: only when a recorder looks, over the whole vocabulary, at leisure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutaway.sampling.native_rows import Ids, Row, count_before, log_total, measure_row, odds_of
from cutaway.sampling.stages.temperature import entropy_of
from cutaway.trace import StageRecord

_FINE = 2.0**40  # a sum of p * ln(p / q) in these units is exact in int64


@dataclass(frozen=True, slots=True)
class View:
    """The distribution after a stage. row: float32 [vocab], -inf where a token is out; top, inverse: what scales it."""

    name: str
    row: Row
    top: float
    inverse: float

    def logs(self) -> tuple[NDArray[np.float64], float]:
        """ln of each token's probability, but for the normaliser; the normaliser."""
        total, _, _ = measure_row(self.row, self.top, self.inverse)
        return (self.row.astype(np.float64) - self.top) * self.inverse, log_total(total)


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
        return tuple(_record(old, new, token) for old, new in zip(before, self.seen, strict=False))


def _record(old: View, new: View, token: int) -> StageRecord:
    total, spread, finite = measure_row(new.row, new.top, new.inverse)
    odds = int(odds_of(new.row[token : token + 1], new.top, new.inverse)[0])
    return StageRecord(
        name=new.name,
        kept=finite,
        entropy=entropy_of(total, spread),
        kl=0.0 if old is new else divergence(new, old),
        probability=odds / total,
        rank=int(count_before(new.row, token)) + 1,
    )


def divergence(new: View, old: View) -> float:
    """D(new || old) in nats; infinite where a stage lets in a token that was out."""
    odds = odds_of(new.row, new.top, new.inverse)
    inside = odds > 0
    new_logs, new_normaliser = new.logs()
    old_logs, old_normaliser = old.logs()
    if np.isneginf(old_logs[inside]).any():
        return math.inf
    shares = odds[inside] / float(odds.sum())
    terms = shares * ((new_logs[inside] - new_normaliser) - (old_logs[inside] - old_normaliser))
    return max(0.0, int(np.rint(terms * _FINE).astype(np.int64).sum()) / _FINE)
