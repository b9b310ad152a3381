"""N-gram speculation (prompt lookup): an answer likely goes on as it did after the same few tokens before.

A draft is nothing but more tokens that are due in the same step. What is chosen at a position never depends on it: the
row of a draft's token counts only if the token itself was chosen. How many tokens to draft is a matter of time alone:
as many as are worth it by the acceptance seen so far, and none where it does not pay. What would have been drafted is
compared with what was chosen also then, which costs nothing, so that drafting begins again where it pays.
Source: Saxena, "Prompt Lookup Decoding", 2023; here for sampling too, and with a measured length.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

LONGEST = 4  # tokens of a match that are compared; the shortest match is two
MOST = 8  # tokens of a draft
LOOKS = 16  # earlier places of a pair that are compared
_DECAY = 0.95  # an observation's weight halves after 14 more
_PRIOR = {2: (0.4, 2.0), 3: (0.7, 2.0), 4: (1.0, 2.0)}  # (right, all) by the match's length: watch before trying much


class Speculator:
    """Of one answer. drafted, accepted: tokens that were computed beside the due one, and those that were chosen."""

    def __init__(self) -> None:
        self.drafted = 0
        self.accepted = 0
        self._latest: dict[tuple[int, int], int] = {}  # a pair of tokens -> the place after its last occurrence
        self._earlier = array("i")  # such a place -> the one before it with the same pair, or -1
        self._guess: list[int] = []
        self._length = 2  # of the match behind the guess
        self._seen = dict(_PRIOR)

    def draft(self, tokens: Sequence[int], most: int, gain: int, cost: int) -> list[int]:
        """Tokens to compute beside the last of `tokens`, at most `most`.

        gain: microseconds that a token saves if it is accepted; cost: microseconds that it takes.
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
        """What was chosen in the step that followed, and how many of the drafted tokens the step computed."""
        self.drafted += drafted
        self.accepted += max(0, len(chosen) - 1)
        for token, guessed in zip(chosen, self._guess, strict=False):
            right, seen = self._seen[self._length]
            self._seen[self._length] = (right * _DECAY + int(token == guessed), seen * _DECAY + 1)
            if token != guessed:
                break
        self._guess = []

    def _index(self, tokens: Sequence[int]) -> None:
        """Note the pairs that another token has followed since."""
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
    """How many tokens before `at` equal the last ones, two at least known to, `LONGEST` at most."""
    length = 2
    while length < min(LONGEST, at) and tokens[at - length - 1] == tokens[-length - 1]:
        length += 1
    return length


def continued(tokens: Sequence[int], at: int, count: int) -> list[int]:
    """`count` tokens from place `at` on; what repeats itself goes on repeating beyond the end."""
    found = list(tokens[at : at + count])
    period = len(found)
    while len(found) < count:
        found.append(found[len(found) - period])
    return found
