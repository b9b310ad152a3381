"""A model of integers that is as particular about its pages as a real one, and cheap.

Each group is one layer. A layer stores a number per token in the token's slot, then reads every slot that its window
lets the token see, through the page table, and mixes what it read into the number that goes to the next layer. So a
number depends on all tokens before it; a wrong table, a stale page, a lost token or a wrong position change the logits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cutaway.ops.protocol import KVGroup, KVLayout, Step
from cutaway.ops.rows import HostRows

VOCAB = 24
U64 = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]


def layout(*groups: tuple[int | None, int], page_size: int = 4) -> KVLayout:
    """groups: (window, pages) of each layer."""
    return KVLayout(
        1, 1, page_size, "f32", "f32", tuple(KVGroup((i,), window, pages) for i, (window, pages) in enumerate(groups))
    )


def mix(x: U64) -> U64:
    """SplitMix64's finalizer."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class FakeModel:
    """Callable as a step function: rows of VOCAB logits."""

    def __init__(self, kv: KVLayout, vocab: int = VOCAB) -> None:
        self.layout = kv
        self.vocab = vocab
        self.storage = [np.zeros((group.pages, kv.page_size), np.uint64) for group in kv.groups]
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> HostRows:
        self.steps.append(step)
        size = self.layout.page_size
        positions = step.positions.astype(np.int64)
        x = mix(step.tokens.astype(np.uint64) * np.uint64(1_000_003) + positions.astype(np.uint64))
        for group, storage, table in zip(self.layout.groups, self.storage, step.page_tables, strict=True):
            pages = table[step.request_of, positions // size]
            assert (pages >= 0).all(), "a token has no page to be written to"
            assert len(set(zip(pages, positions % size, strict=True))) == len(pages), "two tokens write to one slot"
            storage[pages, positions % size] = x
            x = mix(x + self._seen(step, group, storage, table))
        logits = mix(x[step.rows][:, None] ^ np.arange(1, self.vocab + 1, dtype=np.uint64)[None, :])
        return HostRows(((logits >> np.uint64(40)).astype(np.float32) / np.float32(2**21)).astype(np.float32))  # 0 to 8

    def _seen(self, step: Step, group: KVGroup, storage: U64, table: np.ndarray) -> U64:
        """What each token reads: a sum over its window, every slot weighted by its position."""
        sums = np.zeros(len(step.tokens), np.uint64)
        for i, (request, position) in enumerate(zip(step.request_of, step.positions.astype(np.int64), strict=True)):
            first = 0 if group.window is None else max(0, position - group.window + 1)
            seen = np.arange(first, position + 1)
            pages = table[request, seen // self.layout.page_size]
            assert (pages >= 0).all(), f"position {position} sees a page that was given back"
            sums[i] = (storage[pages, seen % self.layout.page_size] * mix(seen.astype(np.uint64))).sum()
        return sums

    def poison(self, group: int, pages: Iterable[int]) -> None:
        """Fill pages that can no longer be read with nonsense."""
        for page in pages:
            self.storage[group][page] = np.uint64(0xDEAD_BEEF_DEAD_BEEF)


class LetterDetokenizer:
    def push(self, token: int) -> str:
        return "" if token == 0 else chr(96 + token)

    def flush(self) -> str:
        return ""


class LetterTokenizer:
    """Token 0 ends an answer, token n is the n-th letter."""

    vocab_size = VOCAB
    bos_id = None
    eos_id = 0
    add_bos = False
    end_ids = frozenset({0})

    def encode_part(self, text: str) -> list[int]:
        return self.encode(text)

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        return [ord(letter) - 96 for letter in text]

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        return "".join(chr(96 + token) for token in ids if token)

    def token_bytes(self, token: int) -> bytes:
        return self.decode([token]).encode()

    def kind(self, token: int) -> str:
        return "normal" if token else "control"

    def piece(self, token: int) -> str:
        return chr(96 + token) if token else "<end>"

    def detokenizer(self, *, skip_special: bool = True, shown: Any = (), after: Any = ()) -> LetterDetokenizer:
        return LetterDetokenizer()
