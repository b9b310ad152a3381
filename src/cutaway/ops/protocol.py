"""What a backend can compute in a step. A model is written once, against `Ops`; what loads it is in backend.py.

The operations are cut where a backend can fuse: norm + activation quantization + several projections; rope + write to
the cache; attention over pages; gate and up. A decoder layer is a handful of calls.

Shapes use the house's words: `tokens` (all tokens of this step, flattened over requests), `rows` (those whose logits
are wanted), `hidden`, `heads`, `kv_heads`, `head_dim`, `vocab`, `pages`, `page_size`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import ParameterError, UnsupportedError

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]

KVType = Literal["f32", "bf16", "int8", "fp8"]
KV_ITEM_BYTES: dict[str, int] = {"f32": 4, "bf16": 2, "int8": 1, "fp8": 1}
KV_ALIGNMENT = 64  # bytes: where the keys and values of a page and head begin
KV_SCALE_BYTES: dict[str, int] = {"f32": 0, "bf16": 0, "int8": 4, "fp8": 4}  # one float32 per token and head

Activation = Literal["silu", "gelu", "gelu_tanh", "relu"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix as it lies in a model file: `raw` holds `rows` runs of equal length, one per output row.

    type: a GGUF type name ("F32", "BF16", "Q4_K", ...); raw: uint8 [rows * bytes per row]; rows, inputs: its shape.
    """

    type: str
    raw: U8
    rows: int
    inputs: int


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm (x / rms(x) * weight) or layer norm ((x - mean) / std * weight + bias), over the last axis.

    `weight` [width] has whatever the file adds to it (Gemma's 1) already added.
    """

    kind: Literal["rms", "layer"]
    weight: F32
    bias: F32 | None
    eps: float


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary tables of one kind of layer. Source: Su et al. 2021, and the scaling's own paper (see model/positions).

    cos, sin: float32 [context, rotary_dim / 2], the scaling's attention factor already multiplied in.
    style: "half" pairs input i with i + rotary_dim/2 (NeoX); "interleaved" pairs 2i with 2i + 1 (GPT-J).
    Only the first rotary_dim inputs of a head are turned.
    """

    cos: F32
    sin: F32
    style: Literal["half", "interleaved"] = "half"


@dataclass(frozen=True, slots=True)
class Attention:
    """What one layer's attention does. `window`: a token sees itself and the window - 1 tokens before it.

    scores = softcap(q . k * scale) + slope[head] * (key position - query position), then softmax.
    softcap(x) = cap * tanh(x / cap). slopes: float32 [heads] (ALiBi, Press et al. 2021), or None.
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    window: int | None = None
    softcap: float | None = None
    slopes: F32 | None = None


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that share one page table: full attention, or one window size."""

    layers: tuple[int, ...]
    window: int | None
    pages: int


@dataclass(frozen=True, slots=True)
class KVLayout:
    """How keys and values are stored. The engine and the planner both ask this for bytes, so they cannot drift."""

    kv_heads: int
    head_dim: int
    page_size: int
    key_type: KVType
    value_type: KVType
    groups: tuple[KVGroup, ...]

    def token_bytes(self) -> int:
        """Bytes that one token costs in one layer."""
        per_head = sum(self.head_dim * KV_ITEM_BYTES[t] + KV_SCALE_BYTES[t] for t in (self.key_type, self.value_type))
        return self.kv_heads * per_head

    def page_bytes(self, group: KVGroup) -> int:
        """Bytes of one page of a group, over all its layers."""
        head = self.page_size * self.token_bytes() // self.kv_heads
        return -(-head // KV_ALIGNMENT) * KV_ALIGNMENT * self.kv_heads * len(group.layers)

    def total_bytes(self) -> int:
        """Bytes of all pages."""
        return sum(self.page_bytes(g) * g.pages for g in self.groups)


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass over a batch. Tokens of a request are contiguous and ascending in position.

    tokens, positions: int32 [tokens]. request_of: int32 [tokens], the row of the page tables, ascending.
    page_tables: one int32 [requests, table_width] per KV group; token p of a request lies in slot p % page_size of the
    page table[p // page_size]; -1 marks a page that was given back (it left the window) or is not yet held.
    rows: int32 [rows], indexes into tokens, ascending: whose logits are wanted.
    adapters: int32 [requests], the adapter that multiplies for each request, 0 for none; None: none at all.
    Raises ParameterError for adapters of another type or number, or below 0.
    """

    tokens: I32
    positions: I32
    request_of: I32
    page_tables: tuple[I32, ...]
    rows: I32
    adapters: I32 | None = None

    def __post_init__(self) -> None:
        if self.adapters is not None:
            requests = len(self.page_tables[0]) if self.page_tables else 0
            if self.adapters.dtype != np.int32 or self.adapters.shape != (requests,) or (self.adapters < 0).any():
                raise ParameterError(f"adapters must be int32 [{requests}], at least 0, one for each request")

    def without_adapters(self) -> Step:
        """The step itself, for a backend that knows no adapters. Raises UnsupportedError where a request has one."""
        if self.adapters is not None and self.adapters.any():
            raise UnsupportedError("this backend has no adapters")
        return self


class Weight(Protocol):
    """A matrix as a backend packed it: output = weight @ input + bias. nbytes: what it holds in memory."""

    @property
    def rows(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Experts:
    """A layer of experts. gate, up: one weight [intermediate, hidden] per expert; down: [hidden, intermediate].

    router: weight [experts, hidden]. The `used` largest router probabilities are taken, ties to the lower index:
    softmax over all experts, then, if `renormalize`, the taken ones are divided by their sum; each is multiplied by
    `scale`. A token's expert outputs are summed in ascending expert order, whatever their probability.
    shared_*: experts that every token uses, added after the others (Qwen2-MoE), its output times
    sigmoid(shared_router . x) when there is one.
    """

    router: Weight
    gate: Sequence[Weight]
    up: Sequence[Weight]
    down: Sequence[Weight]
    used: int
    renormalize: bool
    scale: float = 1.0
    shared_gate: Weight | None = None
    shared_up: Weight | None = None
    shared_down: Weight | None = None
    shared_router: Weight | None = None


# A tensor of a step ([tokens, width] float32) and a layer's pages are whatever the backend says they are.
Hidden = Any
KVLayer = Any
Forward = Callable[["Ops", Step], Hidden]


class Ops(Protocol):
    """The operations of a step. A forward pass is written against them; a backend's `record` hands them to it."""

    def embed(self, step: Step, table: Any, scale: float) -> Hidden:
        """Rows of the table times scale: [tokens, hidden]."""
        ...

    def add_positions(self, step: Step, x: Hidden, table: F32) -> Hidden:
        """x + table[positions] (learned or sinusoidal). table: float32 [context, hidden]."""
        ...

    def normalize(self, step: Step, x: Hidden, norm: Norm) -> Hidden:
        """norm(x), same shape."""
        ...

    def project(self, step: Step, x: Hidden, norm: Norm | None, weights: Sequence[Weight]) -> tuple[Hidden, ...]:
        """weight @ norm(x) + bias for each weight: [tokens, rows] each."""
        ...

    def rotate_store(
        self, step: Step, q: Hidden, k: Hidden, v: Hidden, kv: KVLayer, attention: Attention,
        rope: Rope | None, q_norm: Norm | None, k_norm: Norm | None,
    ) -> Hidden:
        """Normalize q and k (per head if the norm is head_dim wide, over the whole row otherwise), turn both by their
        positions, write k and v to their pages. Returns q, [tokens, heads * head_dim]."""
        ...

    def attend(self, step: Step, q: Hidden, kv: KVLayer, attention: Attention) -> Hidden:
        """Causal attention of q over the pages of its request: [tokens, heads * head_dim]."""
        ...

    def project_add(self, step: Step, x: Hidden, a: Hidden, weight: Weight, norm: Norm | None, scale: float) -> Hidden:
        """x + scale * norm(weight @ a + bias). The norm comes after the projection (Gemma, OLMo 2)."""
        ...

    def feed(
        self, step: Step, x: Hidden, norm: Norm | None, gate: Weight | None, up: Weight, activation: Activation
    ) -> Hidden:
        """activation(gate @ n) * (up @ n), or activation(up @ n) when there is no gate; n = norm(x)."""
        ...

    def mix_experts(self, step: Step, x: Hidden, norm: Norm | None, experts: Experts, activation: Activation) -> Hidden:
        """x + the experts' mixture of norm(x)."""
        ...

    def logits(self, step: Step, x: Hidden, norm: Norm, head: Weight, scale: float, softcap: float | None) -> Hidden:
        """softcap(scale * (head @ norm(x[rows]))): [rows, vocab]."""
        ...
