"""Bytes for weights, keys and values, positions and scratch, before anything is loaded.

The arithmetic is not written a second time: weights and buffers are those of the backend's own outline (outline.py),
the cache is counted by `KVLayout`, which the engine allocates from.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutaway.errors import MemoryShortError
from cutaway.model import ModelSpec, kv_groups
from cutaway.ops.backend import StepLimits
from cutaway.ops.outline import Scratch
from cutaway.ops.protocol import KVType

PAGE_SIZE = 16  # tokens of a page of keys and values
LIMITS = StepLimits()


@dataclass(frozen=True, slots=True)
class TypeCost:
    """All matrices of one tensor type. file, packed: bytes in the file and in memory."""

    type: str
    tensors: int
    file: int
    packed: int


@dataclass(frozen=True, slots=True)
class GroupCost:
    """Keys and values of the layers that share a page table. window: None for full attention."""

    window: int | None
    layers: int
    pages: int
    bytes: int

    @property
    def page_bytes(self) -> int:
        """Of one page in all layers of the group."""
        return self.bytes // self.pages


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes, by what they are for.

    mapped: the embedding table, read where it lies in the file: the system may drop its pages, so it is not in the sum.
    step: what the recorded step holds for the largest batch that `limits` allow; allocated when the model is loaded.
    vectors: norms and biases. positions: tables of rotations, or of learned positions.
    """

    context: int
    requests: int
    key_type: KVType
    value_type: KVType
    weights: tuple[TypeCost, ...]
    groups: tuple[GroupCost, ...]
    token_bytes: int
    vectors: int
    positions: int
    step: Scratch
    mapped: int
    limits: StepLimits

    @property
    def weight_bytes(self) -> int:
        return sum(w.packed for w in self.weights) + self.vectors

    @property
    def kv_bytes(self) -> int:
        return sum(g.bytes for g in self.groups)

    @property
    def scratch(self) -> int:
        return self.step.total

    @property
    def idle(self) -> int:
        """The part of `scratch` that stays untouched while at most `requests` decode at once: rows of logits."""
        return max(0, self.limits.rows - self.requests) * self.step.logits

    @property
    def total(self) -> int:
        """Never below what the engine holds."""
        return self.weight_bytes + self.kv_bytes + self.positions + self.scratch


def kv_pages(
    spec: ModelSpec, *, context: int, page_size: int, requests: int = 1, chunk: int = LIMITS.tokens
) -> tuple[int, ...]:
    """Pages per group of `kv_groups` so that so many requests can fill the context at once.

    A window group needs only the window before the tokens of one chunk, the chunk itself, and a page at either end.
    """
    full = -(-context // page_size)
    return tuple(
        requests * (full if g.window is None else min(full, -(-(g.window + chunk) // page_size) + 2))
        for g in kv_groups(spec)
    )


def check_memory(plan: MemoryPlan, available: int | None) -> None:
    """Raises MemoryShortError, with both numbers, when the plan needs more than there is."""
    if available is not None and plan.total > available:
        kv = f"{readable_bytes(plan.kv_bytes)} of it for {plan.context} tokens of context"
        raise MemoryShortError(
            f"the model needs {plan.total} bytes ({readable_bytes(plan.total)}, {kv}), "
            f"and {available} ({readable_bytes(available)}) are available",
            hint="choose a smaller context, smaller key-value types, or a smaller model",
            figures={"needed_bytes": plan.total, "available_bytes": available},
        )


def plan_rows(plan: MemoryPlan) -> list[tuple[str, str, int]]:
    """The plan as lines of (what, how many of what, bytes); the last line is the sum."""
    rows = [
        (f"weights {w.type}", f"{w.tensors} matrices, {readable_bytes(w.file)} in the file", w.packed)
        for w in plan.weights
    ]
    rows.append(("weights, norms and biases", "float32", plan.vectors))
    for g in plan.groups:
        kind = "full" if g.window is None else f"window {g.window}"
        rows.append((f"keys and values, {kind}", f"{g.layers} layers, {g.pages} pages", g.bytes))
    rows += [
        ("positions", f"{plan.context} tokens", plan.positions),
        ("scratch, values of a step", f"{plan.limits.tokens} tokens, {plan.limits.rows} rows", plan.step.values),
        ("scratch, activations", "as products take them", plan.step.shared),
        ("scratch, threads", "of all together", plan.step.workers),
        ("total", f"beside {readable_bytes(plan.mapped)} of the file that stay mapped", plan.total),
    ]
    return rows


def readable_bytes(count: int) -> str:
    """Bytes for people, in decimal units: 98.4 MB."""
    units = ("B", "kB", "MB", "GB", "TB")
    value, power = float(count), 0
    while value >= 999.5 and power + 1 < len(units):
        value, power = value / 1000, power + 1
    return f"{value:.{1 if power and value < 99.95 else 0}f} {units[power]}"
