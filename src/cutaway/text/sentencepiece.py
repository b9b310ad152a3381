"""Merges for a SentencePiece vocabulary, which lists scores instead.

SentencePiece joins the two neighbours whose joined piece has the best score. The same, as a list of merges: every way
to cut a piece into two pieces, best score first; among the cuts of pieces with one score, longer left and then longer
right parts first, as Hugging Face's converter orders them. Of all cuts of one piece only one can ever happen: what
happens inside a piece does not depend on its surroundings, or the piece would not arise. So only that one is kept,
which halves the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cutaway.text.vocabulary import BYTE, CONTROL, UNKNOWN, UNUSED, Vocabulary

I32 = NDArray[np.int32]


def find_merges(vocabulary: Vocabulary, spellings: Sequence[str], scores: NDArray[np.floating]) -> I32:
    """Merges in order of rank: int32 [merges, 2], ids of the left and the right part.

    Args:
        spellings: pieces as they stand in text (blanks as U+2581), by id.
        scores: [vocab], higher is merged sooner.
    """
    left, right, joined = _cuts(vocabulary, spellings)
    lengths = np.fromiter(map(len, spellings), np.int32, len(spellings))
    order = np.lexsort((joined, -lengths[right], -lengths[left], -scores[joined]))
    left, right, joined = left[order], right[order], joined[order]
    ids = dict(zip(spellings, range(len(spellings)), strict=True))
    ranks = _Ranks(left, right, joined, len(spellings))
    happening = np.zeros(len(joined), bool)
    pieces = np.unique(joined)
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
    """Every way to cut a piece into two: ids of left part, right part, and piece, each int32 [cuts].

    Control tokens and bytes take no part: they are not text, so no text may merge into them.
    """
    inert = np.isin(vocabulary.types, (CONTROL, UNKNOWN, UNUSED, BYTE)).tolist()
    ids = {spelling: id for id, spelling in enumerate(spellings) if not inert[id]}
    find = ids.get
    cuts: list[int] = []
    for spelling, joined in ids.items():
        for place in range(1, len(spelling)):
            left = find(spelling[:place])
            if left is not None and (right := find(spelling[place:])) is not None:
                cuts += left, right, joined
    table = np.array(cuts, np.int32).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
