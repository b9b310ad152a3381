"""N-gram speculation (prompt lookup): an answer probably continues as it did after the same few tokens before.

A draft is a number of further tokens that are due in the same step. The token chosen at a position never depends on it:
the row of a drafted token counts only if that token was chosen. The number of drafted tokens affects only time: as many
as pay off at the acceptance rate so far, or none. What would have been drafted is compared with the chosen tokens in
any case, which costs nothing, so that drafting starts again when it pays. Source: Saxena, "Prompt Lookup Decoding",
2023; here for sampling too, and with a measured length.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

LONGEST = 4  # maximum tokens of a match that are compared; the shortest match is two
MOST = 8  # tokens of a draft
LOOKS = 16  # earlier occurrences of a pair that are compared
_DECAY = 0.95  # the weight of an observation halves after 14 more
_PRIOR = {2: (0.4, 2.0), 3: (0.7, 2.0), 4: (1.0, 2.0)}  # (right, all) by length of the match: observe first


class Speculator:
    """The speculation of one answer. drafted, accepted: tokens computed as drafts, and those that were chosen."""

    def __init__(self) -> None:
        self.drafted = 0
        self.accepted = 0
        self._latest: dict[tuple[int, int], int] = {}  # a pair of tokens -> the place after its last occurrence
        self._earlier = array("i")  # such a place -> the previous one with the same pair, or -1
        self._guess: list[int] = []
        self._length = 2  # of the match behind the guess
        self._seen = dict(_PRIOR)

    def draft(self, tokens: Sequence[int], most: int, gain: int, cost: int) -> list[int]:
        """Tokens to compute after the last of `tokens`, at most `most`.

        gain: microseconds saved per accepted token. cost: microseconds per drafted token.
        """
        self._index(tokens)
        at = self._find(tokens)
        self._guess = [] if at < 0 else continued(tokens, at, MOST)
        right, seen = self._seen[self._length]
        count, chance = 0, right / seen
        while count < min(most, len(self._guess)) and chance * gain >= cost:
            count += 1
            chance *= right / seen
        return self._guess[:count]

    def learn(self, chosen: Sequence[int], drafted: int) -> None:
        """Record the tokens chosen in the following step, and how many of the drafted tokens it computed."""
        self.drafted += drafted
        self.accepted += max(0, len(chosen) - 1)
        for token, guessed in zip(chosen, self._guess, strict=False):
            right, seen = self._seen[self._length]
            self._seen[self._length] = (right * _DECAY + int(token == guessed), seen * _DECAY + 1)
            if token != guessed:
                break
        self._guess = []

    def _index(self, tokens: Sequence[int]) -> None:
        """Record the pairs of tokens that have been followed by another since."""
        for at in range(len(self._earlier), len(tokens)):
            pair = (tokens[at - 2], tokens[at - 1]) if at >= 2 else (-1, -1)
            self._earlier.append(self._latest.get(pair, -1))
            self._latest[pair] = at

    def _find(self, tokens: Sequence[int]) -> int:
        """The place after the longest, then latest, match of the end of `tokens`; -1 if there is none."""
        best, self._length = -1, 2
        at = self._latest.get((tokens[-2], tokens[-1]), -1) if len(tokens) > 2 else -1
        for _ in range(LOOKS):
            if at < 0:
                break
            length = match(tokens, at)
            if best < 0 or length > self._length:
                best, self._length = at, length
            if length == LONGEST:
                break
            at = self._earlier[at]
        return best


def match(tokens: Sequence[int], at: int) -> int:
    """The number of tokens before `at` that equal the last ones: at least two, at most `LONGEST`."""
    length = 2
    while length < min(LONGEST, at) and tokens[at - length - 1] == tokens[-length - 1]:
        length += 1
    return length


def continued(tokens: Sequence[int], at: int, count: int) -> list[int]:
    """`count` tokens from place `at` on; a repetition continues beyond the end."""
    found = list(tokens[at : at + count])
    period = len(found)
    while len(found) < count:
        found.append(found[len(found) - period])
    return found
