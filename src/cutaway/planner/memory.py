"""Bytes for weights, keys and values, positions and scratch, before anything is loaded.

The arithmetic is not written a second time: weights are counted by the backend's own packing rule, the cache by
`KVLayout`, which the engine allocates from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cutaway.errors import MemoryShortError
from cutaway.formats import ModelFile
from cutaway.model import ModelSpec, kv_groups, kv_layout
from cutaway.model.tensor_source import TensorSource
from cutaway.ops.backend import StepLimits
from cutaway.ops.protocol import KVType

Packing = Callable[[str, int, int], int]
"""(tensor type, rows, inputs) -> bytes of that matrix as a backend packs it."""

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


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes, by what they are for.

    mapped: the embedding table, read where it lies in the file: the system may drop its pages, so it is not in the sum.
    scratch: an estimate of the buffers of the largest step, of step_tokens.
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
    scratch: int
    mapped: int
    step_tokens: int

    @property
    def weight_bytes(self) -> int:
        return sum(w.packed for w in self.weights) + self.vectors

    @property
    def kv_bytes(self) -> int:
        return sum(g.bytes for g in self.groups)

    @property
    def total(self) -> int:
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


def plan_memory(
    file: ModelFile,
    spec: ModelSpec,
    packing: Packing,
    *,
    context: int,
    page_size: int,
    requests: int = 1,
    key_type: KVType = "bf16",
    value_type: KVType = "bf16",
    limits: StepLimits = LIMITS,
) -> MemoryPlan:
    """Count a model's bytes. Reads nothing but what `open_model` has read. Raises FormatError, UnsupportedError."""
    pages = kv_pages(spec, context=context, page_size=page_size, requests=requests, chunk=limits.tokens)
    layout = kv_layout(spec, pages=pages, page_size=page_size, key_type=key_type, value_type=value_type)
    groups = tuple(GroupCost(g.window, len(g.layers), g.pages, layout.page_bytes(g) * g.pages) for g in layout.groups)
    weights, vectors, mapped = _weights(file, spec, packing)
    return MemoryPlan(
        context=context,
        requests=requests,
        key_type=key_type,
        value_type=value_type,
        weights=weights,
        groups=groups,
        token_bytes=layout.token_bytes() * spec.layers,
        vectors=vectors,
        positions=_positions(spec, context),
        scratch=_scratch(spec, limits),
        mapped=mapped,
        step_tokens=limits.tokens,
    )


def _weights(file: ModelFile, spec: ModelSpec, packing: Packing) -> tuple[tuple[TypeCost, ...], int, int]:
    """Matrices by type, bytes of vectors (as float32), and bytes of the embedding table, which stays in the file."""
    source = TensorSource.of(file, spec)
    embedding = source.take("embedding")
    positions = source.find("positions") if source.has("positions") else None
    head = source.find("head") if source.has("head") else None
    costs: dict[str, TypeCost] = {}
    vectors = 0
    for tensor in file.tensors.values():
        is_table = tensor is embedding or tensor is positions
        if len(tensor.shape) < 2:
            vectors += 4 * math.prod(tensor.shape)
        elif not (is_table and not (tensor is embedding and spec.tied)) and not (spec.tied and tensor is head):
            packed = packing(tensor.type, math.prod(tensor.shape[:-1]), tensor.shape[-1])
            old = costs.get(tensor.type, TypeCost(tensor.type, 0, 0, 0))
            costs[tensor.type] = TypeCost(
                tensor.type, old.tensors + 1, old.file + tensor.raw.nbytes, old.packed + packed
            )
    return tuple(sorted(costs.values(), key=lambda c: (-c.packed, c.type))), vectors, embedding.raw.nbytes


def _positions(spec: ModelSpec, context: int) -> int:
    """Rotary tables (cos and sin, one pair per kind of layer) or the position table, float32."""
    ropes = {spec.layer_rope(layer) for layer in range(spec.layers)} - {None}
    tables = sum(2 * context * (rope.rotary_dim // 2) * 4 for rope in ropes if rope is not None)
    return tables + (context * spec.hidden * 4 if spec.positions in ("learned", "sinusoidal") else 0)


def _scratch(spec: ModelSpec, limits: StepLimits) -> int:
    """Rows of a layer that are alive at once, float32, and the logits."""
    heads = (spec.heads + 2 * spec.kv_heads) * spec.head_dim
    widest = max(spec.intermediate, spec.experts.intermediate * spec.experts.used if spec.experts else 0)
    return 4 * (limits.tokens * (3 * spec.hidden + 2 * heads + 3 * widest) + limits.rows * spec.vocab)


def check_memory(plan: MemoryPlan, available: int | None) -> None:
    """Raises MemoryShortError, with both numbers, when the plan needs more than there is."""
    if available is not None and plan.total > available:
        kv = f"{readable_bytes(plan.kv_bytes)} of it for {plan.context} tokens of context"
        raise MemoryShortError(
            f"the model needs {plan.total} bytes ({readable_bytes(plan.total)}, {kv}), "
            f"and {available} ({readable_bytes(available)}) are available",
            hint="choose a smaller context, smaller key-value types, or a smaller model",
        )


def plan_rows(plan: MemoryPlan) -> list[tuple[str, str, int]]:
    """The plan as lines of (what, how many of what, bytes); the last line is the sum."""
    rows = [
        (f"weights {w.type}", f"{w.tensors} tensors, {readable_bytes(w.file)} in the file", w.packed)
        for w in plan.weights
    ]
    rows.append(("weights, vectors", "float32", plan.vectors))
    for g in plan.groups:
        kind = "full" if g.window is None else f"window {g.window}"
        rows.append((f"keys and values, {kind}", f"{g.layers} layers, {g.pages} pages", g.bytes))
    rows += [
        ("positions", f"{plan.context} tokens", plan.positions),
        ("scratch", f"about; steps of {plan.step_tokens} tokens", plan.scratch),
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
