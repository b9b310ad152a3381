"""Two versions compared in pairs: what interleaved blocks of steps say of the ratio of their times."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

FEWEST_PAIRS = 2_000
SHORTEST, LONGEST = 32, 64  # steps of a block
RESAMPLES = 4_000


@dataclass(frozen=True, slots=True)
class Block:
    """Seconds of the same steps, first in one version and right after it in the other."""

    old: tuple[float, ...]
    new: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Time of the new version over that of the old one; medians, since a step may have been interrupted."""
        return median(self.new) / median(self.old)


@dataclass(frozen=True, slots=True)
class Comparison:
    """ratio: time of the new version over the old one's. low, high: its 95 % interval."""

    ratio: float
    low: float
    high: float
    pairs: int

    def verdict(self, bound: float) -> str:
        """Of the claim that the new version takes less than `bound` times as long: "met" where the whole interval lies
        below the bound, "missed" where none of it does, else "open". Too few pairs leave it open."""
        if self.pairs >= FEWEST_PAIRS and self.high < bound:
            return "met"
        return "missed" if self.pairs >= FEWEST_PAIRS and self.low >= bound else "open"

    def line(self, bound: float) -> str:
        return (
            f"{self.ratio:.4f} of the old time, 95 % between {self.low:.4f} and {self.high:.4f} "
            f"({self.pairs} pairs); below {bound:g}: {self.verdict(bound)}"
        )


def compare(loads: Sequence[Sequence[Block]], seed: int = 0) -> Comparison:
    """The median of all blocks' ratios, and a percentile bootstrap in two stages: over loads, then over the blocks of
    each. loads: the blocks of each pair of processes.

    Steps of one block share what the machine did meanwhile, and blocks of one pair of processes share where the system
    put their memory for as long as they live; neither are independent samples.
    """
    ratios = [[block.ratio for block in blocks] for blocks in loads]
    draw = random.Random(seed)

    def again() -> float:
        return median(r for load in draw.choices(ratios, k=len(ratios)) for r in draw.choices(load, k=len(load)))

    found = sorted(again() for _ in range(RESAMPLES))
    edge = RESAMPLES // 40  # 2.5 %
    pairs = sum(len(block.old) for blocks in loads for block in blocks)
    return Comparison(median(r for load in ratios for r in load), found[edge], found[-edge - 1], pairs)


def plan_blocks(pairs: int, draw: random.Random) -> Iterator[tuple[int, bool]]:
    """(steps, whether the new version goes first) of blocks that together have at least so many pairs."""
    while pairs > 0:
        steps = draw.randint(SHORTEST, LONGEST)
        yield steps, draw.random() < 0.5
        pairs -= steps
