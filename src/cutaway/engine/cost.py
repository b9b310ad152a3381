"""The predicted duration of a step: a linear model, fitted to the measured steps.

time = base + token * tokens + pair * (token, context position) pairs

`base` is the reading of the weights once, `token` the arithmetic of one token, `pair` attention. Predictions are in
whole microseconds. A schedule never changes the bits of a token, so a wrong prediction affects only latency.
"""

from __future__ import annotations

from math import isqrt

_TOKENS, _PAIRS = 64.0, 65536.0  # units that scale the three features to about one
_DECAY = 0.98  # the weight of a step halves after 34 more
_NOTED = 64  # maximum number of steps between two updates
_OUTLIER = 8.0  # a step this many times slower than predicted says more about the machine than about the model


def pairs(start: int, count: int) -> int:
    """The number of (token, context position) pairs of `count` tokens that follow `start` others."""
    return count * start + count * (count + 1) // 2


class CostModel:
    """Least squares over decayed sums, with a prior that holds until measurements outweigh it."""

    def __init__(self, base_us: float = 10_000.0, token_us: float = 1_000.0, pair_us: float = 0.5) -> None:
        self._coefficients = [base_us, token_us * _TOKENS, pair_us * _PAIRS]
        self._steps = 0
        self._noted: list[tuple[int, int, float]] = []
        prior = [1e-3 * c for c in self._coefficients]
        self._sums = [1e-3, 0.0, 0.0, 1e-3, 0.0, 1e-3, *prior]  # of 1, x, y, xx, xy, yy, z, xz, yz: see _learn

    @classmethod
    def for_weights(cls, count: int) -> CostModel:
        """A first guess for an average machine: `count` bytes of weights read at 20 GB/s and, at 4 bits each, 600
        billion operations per second. It keeps the first steps of a large model short; later steps are measured."""
        return cls(count / 20e3, 4 * count / 600e3)

    @property
    def base(self) -> int:
        """Microseconds that a step takes independently of its contents."""
        return int(self._learnt()[0])

    def predict(self, tokens: int, pair_count: int) -> int:
        """Microseconds of a step."""
        base, token, pair = self._learnt()
        return int(base + token * tokens / _TOKENS + pair * pair_count / _PAIRS)

    def affordable(self, budget: int, start: int) -> int:
        """The number of tokens after `start` others that fit into `budget` microseconds, without the base."""
        if budget <= 0:
            return 0
        _, token, pair = self._learnt()
        pair /= _PAIRS
        line = token / _TOKENS + pair * (start + 0.5)
        # the positive root of pair/2 * n^2 + line * n = budget, in a form that is exact for pair -> 0
        root = isqrt(int((line * line + 2 * pair * budget) * 1_000_000)) / 1_000
        return int(2 * budget / (line + root))

    def observe(self, tokens: int, pair_count: int, microseconds: float) -> None:
        """Record a step. The model is updated at the next prediction: none is made while a single answer is decoded,
        and right after a step every object is out of the cache."""
        self._noted.append((tokens, pair_count, microseconds))
        if len(self._noted) == _NOTED:
            self._learnt()

    def _learnt(self) -> list[float]:
        """The coefficients, updated with all recorded steps."""
        noted, self._noted = self._noted, []  # before the update, which makes predictions
        for step in noted:
            self._learn(*step)
        return self._coefficients

    def _learn(self, tokens: int, pair_count: int, microseconds: float) -> None:
        self._steps += 1
        if self._steps > 8 and microseconds > _OUTLIER * self.predict(tokens, pair_count):
            return
        x, y, z = tokens / _TOKENS, pair_count / _PAIRS, microseconds
        new = (1.0, x, y, x * x, x * y, y * y, z, x * z, y * z)
        self._sums = [old * _DECAY + one for old, one in zip(self._sums, new, strict=True)]
        if self._steps < 32 or self._steps % 8 == 0:
            self._solve()

    def _solve(self) -> None:
        """Coordinate descent on the normal equations, with every coefficient kept above zero."""
        n, x, y, xx, xy, yy, z, xz, yz = self._sums
        base, token, pair = self._coefficients
        for _ in range(8):
            base = max(1e-3, (z - (x * token + y * pair)) / n)
            token = max(1e-3, (xz - (x * base + xy * pair)) / xx)
            pair = max(1e-3, (yz - (y * base + xy * token)) / yy)
        self._coefficients = [base, token, pair]
