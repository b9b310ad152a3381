"""Detects an answer that ends with the same sequence of tokens again and again.

The detection is exact, on token ids. Every EVERY tokens it finds the places at which the last EVERY tokens occurred
before: a loop must be one of them, and in other text there are hardly any. The search is one call of the C library over
two kilobytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.sampling.checks import LoopPolicy
from cutaway.sampling.params import SamplingParams

LONGEST = 512
"""The longest period that is detected, in tokens."""
REPEATS = 10
TOKENS = 200
"""The smallest number of equal periods, and of tokens in them, that is a loop."""
EVERY = 16
"""Tokens between two searches; a loop may be detected that much later."""


GRAM = 4


def loop_policy(params: SamplingParams) -> LoopPolicy:
    """The policy of these parameters: `on_repetition`, or what `stop_on_repetition` means, or a warning."""
    return params.on_repetition or ("stop" if params.stop_on_repetition else "warn")


def repetition_score(tokens: Sequence[int]) -> float:
    """The share of an answer's runs of four tokens that stood in it before, 0 to 1; 0 for fewer than four tokens.

    Source: seq-rep-4 of Welleck et al. 2019, "Neural text generation with unlikelihood training".
    """
    count = len(tokens) - GRAM + 1
    return 1 - len(set(zip(*(tokens[i:] for i in range(GRAM)), strict=False))) / count if count > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Loop:
    """The same `period` tokens occurred `repeats` times in a row."""

    period: int
    repeats: int

    def __str__(self) -> str:
        tokens = "token was" if self.period == 1 else f"{self.period} tokens were"
        return f"the answer goes round in circles: the same {tokens} written {self.repeats} times in a row"


class LoopDetector:
    """The detector of one answer: `push` each token. The prompt does not count, because repeating it may be
    intended."""

    def __init__(self) -> None:
        self._tokens = array("i")
        self._period = self._length = 0  # of the last loop: its tokens in total
        self._inside = False

    @property
    def loop(self) -> Loop | None:
        """The last loop that was detected."""
        return Loop(self._period, self._length // self._period) if self._period else None

    def push(self, token: int) -> bool:
        """Add the next token. Returns whether the answer is in a loop now."""
        tokens = self._tokens
        tokens.append(token)
        if self._inside:
            self._inside = token == tokens[-1 - self._period]
            self._length += self._inside
        elif len(tokens) >= TOKENS and not len(tokens) % EVERY:
            self._look()
        return self._inside

    def _look(self) -> None:
        tokens = self._tokens
        size = tokens.itemsize
        window = tokens[-LONGEST - EVERY :].tobytes()
        last, end = window[-EVERY * size :], len(window) - 1
        while (at := window.rfind(last, 0, end)) >= 0:  # the shortest period first
            end = at + len(last) - 1
            period, rest = divmod(len(window) - len(last) - at, size)
            needed = max(REPEATS, -(-TOKENS // period)) * period if not rest else 0
            if needed and needed <= len(tokens) and tokens[-needed:-period] == tokens[period - needed :]:
                self._period, self._length, self._inside = period, self._extent(period, needed), True
                return

    def _extent(self, period: int, length: int) -> int:
        """The number of last tokens that belong to the loop, at least `length`."""
        tokens = self._tokens
        while length < len(tokens) and tokens[-length - 1] == tokens[period - length - 1]:
            length += 1
        return length
