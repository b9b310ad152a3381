"""What a model takes on a backend, found by loading its outline: loader and decoder run as for a real model, over
weights that have a shape and a size but no data. Nothing is counted by a second arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cutaway.ops.protocol import F32, Forward, KVLayer, KVLayout, Matrix, Weight


@dataclass(frozen=True, slots=True)
class Scratch:
    """Bytes that a recorded step holds. values: buffers between ops. shared: activations as products take them, and
    partial sums of attention. workers: of all threads together. logits: the part of `values` that is one row of
    logits, of which only as many are touched as requests decode at once."""

    values: int
    shared: int
    workers: int
    logits: int

    @property
    def total(self) -> int:
        return self.values + self.shared + self.workers


@dataclass(slots=True)
class Packed:
    """All matrices of one tensor type. file, packed: bytes in the file and in memory."""

    matrices: int = 0
    file: int = 0
    packed: int = 0


class Outline(Protocol):
    """A backend's `weight`, `table` and `open_cache` without data, and a recording that says what a step would hold.

    packed: per tensor type, what the weights so far take. bias_bytes: of their biases. copies: how often vectors and
    position tables lie in memory (once for the decoder, perhaps once for the recorded step). pool_bytes: what a pool
    of pages takes beyond its pages.
    """

    packed: dict[str, Packed]
    bias_bytes: int

    @property
    def copies(self) -> int: ...
    @property
    def pool_bytes(self) -> int: ...

    def weight(self, matrix: Matrix, bias: F32 | None = None) -> Weight: ...
    def table(self, matrix: Matrix) -> Any: ...
    def open_cache(self, layout: KVLayout) -> list[KVLayer]:
        """Handles of the layout's layers; one page of each group is enough."""
        ...

    def record(self, forward: Forward) -> Callable[[int], Scratch]:
        """What the recorded step holds, as a function of the tokens that a request may have at most."""
        ...


def add_packed(packed: dict[str, Packed], matrix: Matrix, held: int) -> None:
    """Count one matrix."""
    entry = packed.setdefault(matrix.type, Packed())
    entry.matrices += 1
    entry.file += matrix.raw.nbytes
    entry.packed += held
