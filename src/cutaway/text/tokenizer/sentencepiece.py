"""Merges for a SentencePiece vocabulary, which has scores instead.

SentencePiece joins the two neighbours whose joined piece has the best score. As a list of merges this is: every way to
split a piece into two pieces, best score first; among splits of pieces with one score, longer left and then longer
right parts first, in the order of Hugging Face's converter. Only one of all splits of a piece can ever occur, because
what happens inside a piece does not depend on its surroundings. So only that one is kept (and a piece's only split,
without a check), which halves the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cutaway.text.tokenizer.vocabulary import BYTE, CONTROL, UNKNOWN, UNUSED, Vocabulary

I32 = NDArray[np.int32]


def find_merges(vocabulary: Vocabulary, spellings: Sequence[str], scores: NDArray[np.floating]) -> I32:
    """Merges in order of rank: int32 [merges, 2], ids of the left and the right part.

    Args:
        spellings: pieces as they appear in text (spaces as U+2581), by id.
        scores: [vocab], higher is merged sooner.
    """
    left, right, joined = _cuts(vocabulary, spellings)
    lengths = np.fromiter(map(len, spellings), np.int32, len(spellings))
    order = np.lexsort((joined, -lengths[right], -lengths[left], -scores[joined]))
    left, right, joined = left[order], right[order], joined[order]
    ids = dict(zip(spellings, range(len(spellings)), strict=True))
    ranks = _Ranks(left, right, joined, len(spellings))
    cuts = np.bincount(joined, minlength=len(spellings))
    happening = cuts[joined] == 1
    pieces = np.flatnonzero(cuts > 1).astype(np.int32)
    for length in np.unique(lengths[pieces]).tolist():
        happening[_last_merges(_characters(pieces[lengths[pieces] == length], spellings, ids), ranks)] = True
    return np.stack([left[happening], right[happening]], axis=1)


class _Ranks:
    """Rank of a pair of neighbours; `none` for a pair that does not merge."""

    def __init__(self, left: I32, right: I32, joined: I32, vocab: int) -> None:
        keys = left.astype(np.int64) * vocab + right
        self.none = len(keys)
        self.joined = np.append(joined, -1)
        self._order = np.append(np.argsort(keys), self.none)
        self._keys = np.append(keys[self._order[:-1]], -1)
        self._vocab = vocab

    def of(self, left: I32, right: I32) -> NDArray[np.int64]:
        keys = left.astype(np.int64) * self._vocab + right
        keys[(left < 0) | (right < 0)] = -2
        place = np.searchsorted(self._keys[:-1], keys)
        found: NDArray[np.int64] = np.where(self._keys[place] == keys, self._order[place], self.none)
        return found


def _characters(pieces: I32, spellings: Sequence[str], ids: Mapping[str, int]) -> I32:
    """The characters of pieces of one length, as tokens (-1: not a token): int32 [pieces, length]."""
    return np.array([[ids.get(character, -1) for character in spellings[piece]] for piece in pieces.tolist()], np.int32)


def _last_merges(symbols: I32, ranks: _Ranks) -> NDArray[np.int64]:
    """The rank of the merge that completes each piece, for those that arise at all.

    symbols: int32 [pieces, symbols], merged step by step, all pieces at once, until one symbol would be left.
    """
    found = ranks.of(symbols[:, :-1], symbols[:, 1:])
    while symbols.shape[1] > 2:
        best = found.argmin(axis=1)
        rows = np.arange(len(symbols))
        alive = found[rows, best] < ranks.none
        symbols, found, best = symbols[alive], found[alive], best[alive]
        rows = rows[: len(symbols)]
        symbols[rows, best] = ranks.joined[found[rows, best]]
        columns = np.arange(symbols.shape[1] - 1)
        symbols = np.take_along_axis(symbols, columns + (columns > best[:, None]), axis=1)
        columns = columns[:-1]
        found = np.take_along_axis(found, columns + (columns >= best[:, None]), axis=1)
        for place, there in ((best - 1, best > 0), (best, best < found.shape[1])):
            at = rows[there], place[there]
            found[at] = ranks.of(symbols[at], symbols[at[0], at[1] + 1])
    return found[found < ranks.none]


def _cuts(vocabulary: Vocabulary, spellings: Sequence[str]) -> tuple[I32, I32, I32]:
    """Every way to split a piece into two: ids of left part, right part and piece, each int32 [cuts].

    Control tokens and bytes are excluded: they are not text, so no text may merge into them. Parts are looked up by a
    hash of their characters (a million slices of `str` would take a second), and the results are compared.
    """
    inert = np.isin(vocabulary.types, (CONTROL, UNKNOWN, UNUSED, BYTE))
    ids = np.flatnonzero(~inert)
    lengths = np.fromiter((len(spellings[id]) for id in ids.tolist()), np.int64, len(ids))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    hashes = _Hashes("".join([spellings[id] for id in ids.tolist()]))
    whole = hashes.of(starts, ends)
    order = np.argsort(whole, kind="stable")
    found = _Lookup(whole[order], ids[order])

    joined = np.repeat(np.arange(len(ids)), np.maximum(lengths - 1, 0))
    first = np.cumsum(np.maximum(lengths - 1, 0)) - np.maximum(lengths - 1, 0)
    middle = starts[joined] + 1 + np.arange(len(joined)) - first[joined]
    left = found.ids(hashes.of(starts[joined], middle))
    joined, middle, left = joined[left >= 0], middle[left >= 0], left[left >= 0]
    right = found.ids(hashes.of(middle, ends[joined]))
    table = np.stack([left, right, ids[joined]])[:, right >= 0]
    spell = spellings.__getitem__
    parts = (map(spell, row.tolist()) for row in table)
    true = [a + b == whole for a, b, whole in zip(*parts, strict=True)]
    left, right, joined = table[:, np.array(true, bool)].astype(np.int32)
    return left, right, joined


class _Hashes:
    """Hashes of parts of one long text: the characters as coefficients of a polynomial, modulo 2**64."""

    _BASE = 0x9E3779B97F4A7C15

    def __init__(self, text: str) -> None:
        characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64) + np.uint64(1)
        powers = self._powers(self._BASE, len(characters))
        self._sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(characters * powers[:-1], dtype=np.uint64)])
        self._inverse = self._powers(pow(self._BASE, -1, 1 << 64), len(characters))

    @staticmethod
    def _powers(base: int, count: int) -> NDArray[np.uint64]:
        factors = np.full(count + 1, base, np.uint64)
        factors[0] = 1
        return np.multiply.accumulate(factors)

    def of(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.uint64]:
        difference: NDArray[np.uint64] = (self._sums[end] - self._sums[start]) * self._inverse[start]
        return difference


class _Lookup:
    """Ids by hash. Of two with the same hash the later is found."""

    def __init__(self, keys: NDArray[np.uint64], ids: NDArray[np.int64]) -> None:
        self._keys, self._ids = keys, ids

    def ids(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Id of each key, or -1."""
        if not len(self._keys):
            return np.full(len(keys), -1)
        place = np.searchsorted(self._keys, keys, side="right") - 1
        return np.where(self._keys[place] == keys, self._ids[place], -1)
