"""What a request has said so far, kept so that a penalty touches only the tokens concerned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Tally:
    """How often each token came, as two parallel arrays in order of first appearance."""

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._ids = np.empty(64, np.int64)
        self._counts = np.zeros(64, np.int64)

    def add(self, token: int) -> None:
        at = self._place.setdefault(token, len(self._place))
        if at == len(self._ids):
            self._ids = np.concatenate((self._ids, np.empty_like(self._ids)))
            self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
        self._ids[at] = token
        self._counts[at] += 1

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._ids[: len(self._place)]

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts[: len(self._place)]


class History:
    """tokens: prompt and output; seen: tally of both; made: tally of the output; follows: for runs of `ngram` tokens,
    which tokens came after each run of ngram - 1."""

    def __init__(self, prompt: Sequence[int], *, ngram: int = 0) -> None:
        self.prompt = tuple(int(token) for token in prompt)
        self.tokens: list[int] = []
        self.generated: list[int] = []
        self.seen = Tally()
        self.made = Tally()
        self.follows: dict[tuple[int, ...], set[int]] = {}
        self._ngram = ngram
        for token in self.prompt:
            self._note(token)

    def add(self, token: int) -> None:
        self.generated.append(token)
        self.made.add(token)
        self._note(token)

    def last(self, count: int) -> tuple[int, ...]:
        """The last `count` tokens (fewer where there are fewer)."""
        return tuple(self.tokens[-count:]) if count else ()

    def _note(self, token: int) -> None:
        if self._ngram and len(self.tokens) >= self._ngram - 1:
            self.follows.setdefault(self.last(self._ngram - 1), set()).add(token)
        self.tokens.append(token)
        self.seen.add(token)
