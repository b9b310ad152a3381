"""The merges of a text in the order in which byte-pair encoding takes them.

Each word begins as its characters. In every step the pair of neighbours that stands first in the list of merges is
joined (the leftmost of equals), until no pair is in the list; what is left are the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from cutaway.errors import UnsupportedError
from cutaway.text import Tokenizer
from cutaway.text.tokenizer.encoder import Place


@dataclass(frozen=True, slots=True)
class MergeStep:
    """rank: place of the merge in the list, from 0. at: index of the joined part. parts: of the word, afterwards."""

    rank: int
    left: str
    right: str
    at: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WordMerges:
    """word, parts: in the vocabulary's spelling. start: the parts before the first merge. whole: the word is a token,
    and is taken before any merge is tried. ids: of the tokens."""

    word: str
    start: tuple[str, ...]
    steps: tuple[MergeStep, ...]
    whole: bool
    ids: tuple[int, ...]

    def json(self) -> dict[str, Any]:
        return asdict(self)


def merge_steps(tokenizer: Tokenizer, text: str) -> list[WordMerges]:
    """The words of a text with their merges. Raises UnsupportedError for tokenizers without merges (Unigram)."""
    model = tokenizer.encoder.model()
    if model.get("type", "BPE") != "BPE":
        raise UnsupportedError(f"this tokenizer has no merges: it is {model['type']}, which weighs whole pieces")
    vocabulary: Mapping[str, int] = model["vocab"]
    pairs = (merge if isinstance(merge, list) else merge.split(" ", 1) for merge in model["merges"])
    ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
    found = []
    for word in tokenizer.encoder.words(text, Place.START):
        whole = bool(model.get("ignore_merges")) and word in vocabulary
        start = (word,) if whole else tuple(_characters(word, vocabulary))
        steps = tuple(_steps(start, ranks))
        parts = steps[-1].parts if steps else start
        found.append(WordMerges(word, start, steps, whole, tuple(vocabulary[part] for part in parts)))
    return found


def _characters(word: str, vocabulary: Mapping[str, int]) -> Iterator[str]:
    """Those that the vocabulary has; of others the byte tokens, where it has these."""
    for character in word:
        if character in vocabulary:
            yield character
        else:
            yield from (name for byte in character.encode() if (name := f"<0x{byte:02X}>") in vocabulary)


def _steps(parts: tuple[str, ...], ranks: Mapping[tuple[str, str], int]) -> Iterator[MergeStep]:
    never = len(ranks)
    while len(parts) > 1:
        found = [ranks.get(pair, never) for pair in pairwise(parts)]
        best = min(found)
        if best == never:
            return
        at = found.index(best)
        left, right = parts[at : at + 2]
        parts = (*parts[:at], left + right, *parts[at + 2 :])
        yield MergeStep(best, left, right, at, parts)
