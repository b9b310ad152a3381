"""A backend loads a model's weights and runs its steps. It is chosen by name (backends.py) before a model is made.

The decoder sees two sides of it, one at a time: the backend itself while weights are packed and pages allocated, and
the operations of a step (protocol.Ops), which `record` passes to a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cutaway.ops.outline import Outline
from cutaway.ops.protocol import F32, Forward, KVLayer, KVLayout, Matrix, Step, Weight
from cutaway.ops.rows import Rows
from cutaway.ops.thread_count import Threads


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The limits of a step: its tokens, and its rows of logits."""

    tokens: int = 512
    rows: int = 64


@dataclass(frozen=True, slots=True)
class Description:
    """A description of the backend, for people and for fingerprints. instruction_set: equal sets give equal bits.
    threads: the maximum number that take part in a step, and why."""

    instruction_set: str
    threads: Threads


class Backend(Protocol):
    """name: as for `open_backend`. limits: of one step."""

    @property
    def name(self) -> str: ...
    @property
    def limits(self) -> StepLimits: ...

    def weight(self, matrix: Matrix, bias: F32 | None = None) -> Weight:
        """Pack a matrix for multiplication. bias: float32 [rows] or None. `matrix.raw` is not kept."""
        ...

    def table(self, matrix: Matrix) -> Any:
        """An embedding table whose rows are read in place; `matrix.raw` is kept (it is a view of the file)."""
        ...

    def open_cache(self, layout: KVLayout) -> list[KVLayer]:
        """Allocate the pages; returns one handle per layer, in layer order."""
        ...

    def record(self, forward: Forward) -> Callable[[Step], Rows]:
        """Turn a forward pass into a function from a step to its rows of logits.

        The native backend runs `forward` once to record it; from then on a step is one call. The rows are valid until
        the next call.
        """
        ...

    def outline(self) -> Outline:
        """Loads a model's shapes without its data, to compute its memory."""
        ...

    def free_memory(self) -> int | None:
        """Bytes that weights and pages may still use in this backend's memory. None: not known."""
        ...

    def describe(self) -> Description:
        """The description. If the number of threads is not given, the first call may measure for about 50 ms."""
        ...
