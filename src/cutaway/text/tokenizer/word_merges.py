"""Byte-level BPE of a few words, directly from the arrays of a GGUF file.

A short prompt needs about a hundred of 150,000 merges. Building the library's model of all of them takes a third of a
second and 90 MB, so until a longer text arrives they are looked up one by one. The ids are the library's.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

from cutaway.errors import TokenizerError
from cutaway.text.tokenizer.pretokenizers import PreTokenizer
from cutaway.text.tokenizer.string_index import PackedStrings, StringIndex, count_spaces
from cutaway.text.tokenizer.vocabulary import UNUSED, Vocabulary

LONGEST = 256  # bytes of a word, because each merge looks at all remaining pairs
_NEVER = 1 << 62


class WordMerges:
    """Encodes text word by word, and caches the words.

    Args:
        vocabulary: byte-level, its tokens left in the file.
        merges: "left right", best first, left in the file.
        kind: splits text into words.
    """

    def __init__(self, vocabulary: Vocabulary, merges: PackedStrings, kind: PreTokenizer) -> None:
        self._vocabulary = vocabulary
        self._strings = merges
        self._kind = kind
        self._ids: dict[str, int | None] = {}
        self._ranks: dict[tuple[str, str], int] = {}
        self._words: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int] | None:
        """Ids of a text; None if a word is too long."""
        cut, normalizer = self._library
        if normalizer is not None:
            text = normalizer.normalize_str(text)
        found: list[int] = []
        for word, _ in cut.pre_tokenize_str(text):
            if len(word) > LONGEST:
                return None
            found += self._words.get(word) or self._word(word)
        return found

    def _word(self, word: str) -> list[int]:
        whole = self._id(word) if self._kind.ignore_merges else None
        parts = [word] if whole is not None else self._merged(word)
        ids = self._words[word] = [id for part in parts if (id := self._id(part)) is not None]
        return ids

    def _merged(self, word: str) -> list[str]:
        """The word's characters, with the best pair of neighbours (the first of equals) joined until no pair merges."""
        parts = [character for character in word if self._id(character) is not None]  # the library drops the others
        ranks = [self._rank(*pair) for pair in pairwise(parts)]
        while ranks and (best := min(ranks)) < _NEVER:
            at = ranks.index(best)
            parts[at : at + 2] = [joined := parts[at] + parts[at + 1]]
            if self._id(joined) is None:
                raise TokenizerError(f"tokenizer.ggml.merges does not fit tokenizer.ggml.tokens: no token {joined!r}")
            del ranks[at]
            if at > 0:
                ranks[at - 1] = self._rank(parts[at - 1], joined)
            if at < len(ranks):
                ranks[at] = self._rank(joined, parts[at + 1])
        return parts

    def _rank(self, left: str, right: str) -> int:
        found = self._ranks.get((left, right))
        if found is None:
            place = self._merges.find(f"{left} {right}".encode())
            found = self._ranks[left, right] = _NEVER if place is None else place
        return found

    def _id(self, spelling: str) -> int | None:
        if spelling not in self._ids:
            found = self._vocabulary.find(spelling)
            self._ids[spelling] = None if found is None or self._vocabulary.types[found] == UNUSED else found
        return self._ids[spelling]

    @cached_property
    def _merges(self) -> StringIndex:
        if count_spaces(self._strings) != len(self._strings):
            raise TokenizerError("tokenizer.ggml.merges: every merge must be two parts with one space between")
        return StringIndex(self._strings)

    @cached_property
    def _library(self) -> tuple[Any, Any]:
        """The splitter of text into words, and the normalizer that composes characters before it (or None)."""
        from tokenizers import normalizers

        return self._kind.build(), normalizers.NFC() if self._kind.nfc else None
