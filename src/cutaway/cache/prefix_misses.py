"""Explains why the match of a prefix ended. No decision depends on it. The reasons:

    prompt_changed   an earlier request had another token here
    evicted          the token was in the cache, and its page was taken for another use
    never_seen       no token was ever written here after the tokens before

A report has the place and the earlier tokens, which show the part of a prompt that should be kept constant.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

BreakReason = Literal["prompt_changed", "evicted", "never_seen"]
BREAK_REASONS: tuple[BreakReason, ...] = ("prompt_changed", "evicted", "never_seen")
REMEMBERED = 4096  # pages of tokens that were evicted
COMPARED = 64  # continuations of one prefix, the latest first
EXPECTED = 8  # ids in a report

Tokens = tuple[int, ...]
Label = tuple[Hashable, int]
"""Identifies a prefix: the key under which it was written, and a hash of its tokens."""


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """The first token of a prompt that was not found. at: its index. expected: if the prompt changed, the tokens of
    earlier requests at this place (some of them, ascending)."""

    at: int
    token: int
    reason: BreakReason
    expected: tuple[int, ...] = ()


class Evicted:
    """The latest evicted continuations, by the name of the prefix that they followed.

    If two prefixes of a key have the same hash, the only effect is a wrong reason in a report. Entries of one key are
    never reported to another.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._count = 0
        self._after: OrderedDict[Label, dict[Tokens, None]] = OrderedDict()

    def add(self, name: Label, tokens: Tokens) -> None:
        """`tokens` followed the prefix of this name and were evicted."""
        known = self._after.setdefault(name, {})
        self._after.move_to_end(name)
        self._count += tokens not in known
        known.pop(tokens, None)
        known[tokens] = None
        while self._count > self._most:
            oldest = next(iter(self._after))
            gone = self._after[oldest]
            del gone[next(iter(gone))]
            self._count -= 1
            if not gone:
                del self._after[oldest]

    def after(self, name: Label) -> Iterator[Tokens]:
        """The evicted continuations of the prefix, the latest first."""
        return reversed(self._after.get(name, {}))

    def clear(self) -> None:
        self._after.clear()
        self._count = 0


def find_break(
    tokens: Sequence[int], found: int, live: Iterable[Tokens], evicted: Iterable[Tokens], page_size: int
) -> PrefixBreak | None:
    """Where and why the match of a prefix ended; None if it did not.

    tokens: those that could have been found. found: the number that were, in whole pages. live, evicted: the known
    continuations, the latest first.
    """
    rest = tuple(tokens[found : found + page_size])
    if not rest:
        return None
    best, expected = _closest(rest, live, 0, set())
    if best == len(rest):
        return None  # known to the end, but no whole page of it is left
    here = PrefixBreak(found + best, rest[best], "evicted")
    gone = list(islice(evicted, COMPARED))
    whole = [known for known in gone if len(known) > best and rest[: len(known)] == known[: len(rest)]]
    if whole:
        usable = len(rest) == page_size or any(len(known) < page_size for known in whole)  # only whole pages are found
        return here if usable else None
    best, expected = _closest(rest, gone, best, expected)
    if not expected or not found + best:
        return PrefixBreak(found + best, rest[best], "never_seen")
    return PrefixBreak(found + best, rest[best], "prompt_changed", tuple(sorted(expected)[:EXPECTED]))


def shared_length(a: Sequence[int], b: Sequence[int], known: int = 0) -> int:
    """The number of tokens that the two have in common from their beginning; the first `known` are equal."""
    most = min(len(a), len(b))
    while known < most and a[known] == b[known]:
        known += 1
    return known


def _closest(rest: Tokens, known: Iterable[Tokens], best: int, expected: set[int]) -> tuple[int, set[int]]:
    """The number of tokens of `rest` that are known, and the ids of other continuations after them."""
    for continuation in islice(known, COMPARED):
        if continuation[:best] != rest[:best]:
            continue
        common = shared_length(continuation, rest, best)
        if common > best:
            best, expected = common, set()
        if common < len(continuation):
            expected.add(continuation[common])
    return best, expected
