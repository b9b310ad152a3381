"""Strings as a GGUF file holds them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np


class Packed:
    """Written into memory instead of a file, behind `before` other bytes."""

    def __init__(self, strings: Sequence[str], before: int = 3) -> None:
        encoded = [text.encode() for text in strings]
        self.strings = list(strings)
        self.data = np.frombuffer(
            bytes(before) + b"".join(struct.pack("<Q", len(text)) + text for text in encoded), np.uint8
        )
        self.offsets = np.cumsum([before, *(8 + len(text) for text in encoded)])

    def __len__(self) -> int:
        return len(self.strings)

    def __getitem__(self, index: int) -> str:
        return self.strings[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings)
