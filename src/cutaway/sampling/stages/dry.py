"""DRY ("don't repeat yourself"): a penalty on continuing a repetition that grows with its length (p-e-w, 2024).

If the last n tokens, n >= dry_allowed_length, occurred before, the token that followed there loses dry_multiplier *
dry_base ^ (n - dry_allowed_length); of several places the longest counts. A repetition does not extend across a token
with which the text comes to contain one of dry_sequence_breakers (as bytes, also across tokens), nor beyond the last
dry_penalty_last_n tokens (-1: all, 0: off).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cutaway.errors import ParameterError
from cutaway.sampling.native_rows import Row
from cutaway.sampling.params import SamplingParams
from cutaway.sampling.stages.history import History
from cutaway.sampling.stages.logit_edits import Edit, Needs

LARGEST = 1e9


def stage_dry(params: SamplingParams, needs: Needs) -> Edit | None:
    """Raises ParameterError without a tokenizer."""
    if params.dry_multiplier == 0 or params.dry_penalty_last_n == 0:
        return None
    if needs.tokenizer is None:
        raise ParameterError("dry_multiplier needs the tokenizer, which knows the text of dry_sequence_breakers")
    return Dry(params, needs.tokenizer.token_bytes)


class Dry:
    """The stage, and its record of the tokens so far.

    lengths[i]: how many tokens up to and including token i equal the last ones; updated with each token.
    """

    def __init__(self, params: SamplingParams, token_bytes: Callable[[int], bytes]) -> None:
        self._multiplier = float(params.dry_multiplier)
        self._base = float(params.dry_base)
        self._allowed = int(params.dry_allowed_length)
        self._last = int(params.dry_penalty_last_n)
        breakers = params.dry_sequence_breakers
        self._breakers = [text.encode() for text in ([breakers] if isinstance(breakers, str) else breakers)]
        self._reach = max(map(len, self._breakers), default=1)
        self._token_bytes = token_bytes
        self._tail = b""
        self._count = 0
        self._unbroken = 0  # tokens after the last breaker
        self._tokens = np.empty(256, np.int64)
        self._lengths = np.zeros(256, np.int32)

    def __call__(self, row: Row, history: History) -> None:
        self._catch_up(history.tokens)
        n, start = self._count, 0 if self._last < 0 else max(0, self._count - self._last)
        if n - start < 2 or self._unbroken < self._allowed:
            return
        room = np.arange(1, n - start, dtype=np.int32)
        lengths = np.minimum(np.minimum(self._lengths[start : n - 1], room), self._unbroken)
        chosen = np.flatnonzero(lengths >= self._allowed)
        chosen = chosen[np.argsort(lengths[chosen], kind="stable")]
        follows = self._tokens[start + 1 : n][chosen]
        exponents = (lengths[chosen] - self._allowed).astype(np.float64)
        with np.errstate(over="ignore"):
            penalties = np.minimum(self._multiplier * self._base**exponents, LARGEST)
        ids, places = np.unique(follows[::-1], return_index=True)  # the last of equal ones has the longest repetition
        row[ids] = row[ids] - penalties[::-1][places]

    def _catch_up(self, tokens: Sequence[int]) -> None:
        if self._count == 0 and len(tokens) > 1:
            self._start(tokens)
        for token in tokens[self._count :]:
            self._add(token)

    def _start(self, tokens: Sequence[int]) -> None:
        """All lengths at once: the Z-function of the reversed tokens (Gusfield 1997), linear in their number."""
        n, back = len(tokens), list(reversed(tokens))
        same = [0] * n
        left = right = 0
        for i in range(1, n):
            if i < right:
                same[i] = min(right - i, same[i - left])
            while i + same[i] < n and back[same[i]] == back[i + same[i]]:
                same[i] += 1
            if i + same[i] > right:
                left, right = i, i + same[i]
        self._grow(n)
        self._tokens[:n] = tokens
        self._lengths[:n] = same[::-1]
        self._count = n
        for token in tokens:
            self._break(token)

    def _add(self, token: int) -> None:
        n = self._count
        self._grow(n + 1)
        lengths = self._lengths
        if n:
            lengths[1:n] = np.where(self._tokens[1:n] == token, lengths[: n - 1] + 1, 0)
            lengths[0] = self._tokens[0] == token
        self._tokens[n], lengths[n] = token, 0
        self._count = n + 1
        self._break(token)

    def _break(self, token: int) -> None:
        text = self._tail + self._token_bytes(token)
        broken = any(text.find(b, max(0, len(self._tail) + 1 - len(b))) >= 0 for b in self._breakers)
        self._unbroken = 0 if broken else self._unbroken + 1
        self._tail = text[len(text) - self._reach + 1 :] if self._reach > 1 else b""

    def _grow(self, count: int) -> None:
        if count > len(self._tokens):
            size = max(count, 2 * len(self._tokens))
            self._tokens = np.resize(self._tokens, size)
            self._lengths = np.resize(self._lengths, size)
