"""Merges for a SentencePiece vocabulary, which lists scores instead.

SentencePiece joins the two neighbours whose joined piece has the best score. The same, as a list of merges: every way
to cut a piece into two pieces, best score first; among the cuts of pieces with one score, longer left and then longer
right parts first, as Hugging Face's converter orders them. Of all cuts of one piece only one can ever happen: what
happens inside a piece does not depend on its surroundings, or the piece would not arise. So only that one is kept,
which halves the list.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    return np.stack([left[order], right[order]], axis=1)


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
