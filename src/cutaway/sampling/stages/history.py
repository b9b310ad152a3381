"""The tokens of a request so far, kept so that a penalty touches only the tokens concerned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Tally:
    """How often each token of a growing list occurred, as two parallel arrays in order of first appearance. Counted on
    request only, because most requests have no penalties."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens
        self._counted = 0
        self._place: dict[int, int] = {}
        self._ids = np.empty(64, np.int64)
        self._counts = np.zeros(64, np.int64)

    def _count(self) -> None:
        for token in self._tokens[self._counted :]:
            self._add(token)
        self._counted = len(self._tokens)

    def _add(self, token: int) -> None:
        at = self._place.setdefault(token, len(self._place))
        if at == len(self._ids):
            self._ids = np.concatenate((self._ids, np.empty_like(self._ids)))
            self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
        self._ids[at] = token
        self._counts[at] += 1

    @property
    def ids(self) -> NDArray[np.int64]:
        self._count()
        return self._ids[: len(self._place)]

    @property
    def counts(self) -> NDArray[np.int64]:
        self._count()
        return self._counts[: len(self._place)]


class History:
    """tokens: prompt and output. seen: the tally of both. made: the tally of the output. follows: for sequences of
    `ngram` tokens, the tokens that followed each sequence of ngram - 1."""

    def __init__(self, prompt: Sequence[int], *, ngram: int = 0) -> None:
        self.prompt = tuple(int(token) for token in prompt)
        self.tokens = list(self.prompt)
        self.generated: list[int] = []
        self.seen = Tally(self.tokens)
        self.made = Tally(self.generated)
        self.follows: dict[tuple[int, ...], set[int]] = {}
        self._ngram = ngram
        if ngram:
            for end in range(ngram, len(self.tokens) + 1):
                self._note(self.tokens[end - ngram : end])

    def add(self, token: int) -> None:
        self.generated.append(token)
        self.tokens.append(token)
        if self._ngram and len(self.tokens) >= self._ngram:
            self._note(self.tokens[-self._ngram :])

    def last(self, count: int) -> tuple[int, ...]:
        """The last `count` tokens (fewer if there are fewer)."""
        return tuple(self.tokens[-count:]) if count else ()

    def _note(self, run: list[int]) -> None:
        self.follows.setdefault(tuple(run[:-1]), set()).add(run[-1])
