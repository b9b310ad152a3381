"""The definition of every operation, in a few lines of NumPy float32: slow, and the standard for other backends.
Functions and short sums are evaluated in float64 and rounded once, so that the results are the same on every
processor.

With `quantize_activations` it rounds like the CPU backend: activations to int8 per token and group of 32 before a
product with a quantized weight, and keys and values to the types of the cache layout; products are then summed in
float64, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cutaway.formats import dequantize
from cutaway.ops import exact_math
from cutaway.ops.protocol import (
    F32,
    I32,
    Activation,
    Attention,
    Experts,
    Matrix,
    Norm,
    Rope,
    Step,
    Weight,
)
from cutaway.ops.rounding import ACTIVATION_GROUP, round_groups

FLOAT_TYPES = frozenset({"F32", "F16", "BF16", "F64"})


@dataclass(frozen=True, slots=True)
class ReferenceWeight:
    """values: float32 [rows, inputs]; bias: float32 [rows] or None."""

    type: str
    values: F32
    bias: F32 | None

    @property
    def rows(self) -> int:
        return int(self.values.shape[0])

    @property
    def inputs(self) -> int:
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        return self.values.nbytes


@dataclass(frozen=True, slots=True)
class ReferencePages:
    """Keys and values of one layer, float32 [pages, page_size, kv_heads, head_dim], rounded to the cache's types.

    group: which page table of a step leads here. round_key, round_value: what storing does to a row [..., head_dim].
    """

    keys: F32
    values: F32
    group: int
    round_key: Callable[[F32], F32]
    round_value: Callable[[F32], F32]


def _silu(x: F32) -> F32:
    return np.asarray(x / (1 + exact_math.exp(-x)))  # exp(-x) may be inf, and x / inf is the right 0


def _gelu(x: F32) -> F32:
    erf = np.array([math.erf(v) for v in (x / math.sqrt(2)).reshape(-1).tolist()], np.float32)
    return np.asarray(0.5 * x * (1 + erf.reshape(x.shape)))


def _gelu_tanh(x: F32) -> F32:
    return np.asarray(0.5 * x * (1 + exact_math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))


def _relu(x: F32) -> F32:
    return np.asarray(np.maximum(x, 0))


ACTIVATIONS: dict[Activation, Callable[[F32], F32]] = {
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": _relu,
}


def normalize(x: F32, norm: Norm | None) -> F32:
    """The norm over the last axis; x itself when there is none."""
    if norm is None:
        return x
    if norm.kind == "layer":
        x = x - exact_math.mean(x)
    root = np.sqrt(exact_math.mean(x * x) + np.float32(norm.eps))
    y: F32 = np.asarray(x * (1 / root) * norm.weight)
    return y if norm.bias is None else np.asarray(y + norm.bias)


def rotate(x: F32, rope: Rope, positions: I32) -> F32:
    """Turn the first rotary_dim inputs of each head: x [tokens, heads, head_dim]."""
    cos, sin = rope.cos[positions][:, None, :], rope.sin[positions][:, None, :]
    half = cos.shape[-1]
    first, second = (
        (slice(0, half), slice(half, 2 * half))
        if rope.style == "half"
        else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    )
    a, b = x[..., first], x[..., second]
    y = x.copy()
    y[..., first], y[..., second] = a * cos - b * sin, b * cos + a * sin
    return y


def softmax(scores: F32) -> F32:
    """Over the last axis. A NaN or an inf makes its row NaN."""
    with np.errstate(invalid="ignore"):
        weights = exact_math.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(weights / exact_math.total(weights))


def capped(x: F32, cap: float | None) -> F32:
    """cap * tanh(x / cap); x itself when there is no cap."""
    return x if cap is None else np.asarray(cap * exact_math.tanh(x / cap))


@dataclass(slots=True)
class ReferenceOps:
    """quantize_activations: round activations as the CPU backend does, where the weight is quantized."""

    quantize_activations: bool = False

    def embed(self, step: Step, table: Matrix, scale: float) -> F32:
        rows = table.raw.reshape(table.rows, -1)[step.tokens]
        return dequantize(table.type, rows.reshape(-1), (len(rows), table.inputs)) * scale

    def add_positions(self, step: Step, x: F32, table: F32) -> F32:
        return x + table[step.positions]

    def normalize(self, step: Step, x: F32, norm: Norm) -> F32:
        return normalize(x, norm)

    def multiply(self, x: F32, weight: Weight) -> F32:
        """weight @ x + bias: [tokens, rows], with x rounded first if the backend rounds for such a weight."""
        assert isinstance(weight, ReferenceWeight)
        if self.quantize_activations and weight.type not in FLOAT_TYPES:
            x = round_groups(x, ACTIVATION_GROUP)
        # Where sums are rounded to codes their last bit counts; elsewhere speed does.
        y = exact_math.multiply(x, weight.values) if self.quantize_activations else x @ weight.values.T
        return y if weight.bias is None else y + weight.bias

    def project(self, step: Step, x: F32, norm: Norm | None, weights: Sequence[Weight]) -> tuple[F32, ...]:
        n = normalize(x, norm)
        return tuple(self.multiply(n, weight) for weight in weights)

    def rotate_store(
        self,
        step: Step,
        q: F32,
        k: F32,
        v: F32,
        kv: ReferencePages,
        attention: Attention,
        rope: Rope | None,
        q_norm: Norm | None,
        k_norm: Norm | None,
    ) -> F32:
        q = self._heads(step, q, attention.heads, attention.head_dim, rope, q_norm)
        k = self._heads(step, k, attention.kv_heads, attention.head_dim, rope, k_norm)
        v = v.reshape(len(v), attention.kv_heads, attention.head_dim)
        pages, slots = _places(step.page_tables[kv.group], step.request_of, step.positions, kv)
        kv.keys[pages, slots], kv.values[pages, slots] = kv.round_key(k), kv.round_value(v)
        return q.reshape(len(q), -1)

    def _heads(self, step: Step, x: F32, heads: int, head_dim: int, rope: Rope | None, norm: Norm | None) -> F32:
        """Norm per head or over the whole row, then the turn: [tokens, heads, head_dim]."""
        if norm is not None and len(norm.weight) != head_dim:
            x, norm = normalize(x, norm), None
        x = normalize(x.reshape(len(x), heads, head_dim), norm)
        return x if rope is None else rotate(x, rope, step.positions)

    def attend(self, step: Step, q: F32, kv: ReferencePages, attention: Attention) -> F32:
        shared = attention.heads // attention.kv_heads  # query heads per key-value head
        q = q.reshape(len(q), attention.kv_heads, shared, attention.head_dim)
        out = np.empty_like(q)
        for token, keys, values, distance in _visible(step, kv, attention.window):
            scores = exact_math.contract("gsd,kgd->gsk", q[token], keys) * attention.scale
            scores = capped(scores, attention.softcap)
            if attention.slopes is not None:
                scores = scores + attention.slopes.reshape(scores.shape[0], -1, 1) * distance
            out[token] = exact_math.contract("gsk,kgd->gsd", softmax(scores), values)
        return out.reshape(len(q), -1)

    def project_add(self, step: Step, x: F32, a: F32, weight: Weight, norm: Norm | None, scale: float) -> F32:
        return x + scale * normalize(self.multiply(a, weight), norm)

    def feed(
        self, step: Step, x: F32, norm: Norm | None, gate: Weight | None, up: Weight, activation: Activation
    ) -> F32:
        n, act = normalize(x, norm), ACTIVATIONS[activation]
        if gate is None:
            return act(self.multiply(n, up))
        return act(self.multiply(n, gate)) * self.multiply(n, up)

    def mix_experts(self, step: Step, x: F32, norm: Norm | None, experts: Experts, activation: Activation) -> F32:
        n, act = normalize(x, norm), ACTIVATIONS[activation]
        shares = expert_shares(self.multiply(n, experts.router), experts)
        mixed = np.zeros_like(x)
        for expert in range(shares.shape[1]):  # ascending, so that the sum's order is fixed
            rows = np.nonzero(shares[:, expert])[0]
            if not len(rows):
                continue
            m = n[rows]
            h = act(self.multiply(m, experts.gate[expert])) * self.multiply(m, experts.up[expert])
            mixed[rows] += shares[rows, expert, None] * self.multiply(h, experts.down[expert])
        return x + mixed + self._shared_expert(n, experts, act)

    def _shared_expert(self, n: F32, experts: Experts, act: Callable[[F32], F32]) -> F32 | float:
        if experts.shared_gate is None or experts.shared_up is None or experts.shared_down is None:
            return 0.0
        y = self.multiply(
            act(self.multiply(n, experts.shared_gate)) * self.multiply(n, experts.shared_up), experts.shared_down
        )
        if experts.shared_router is None:
            return y
        return np.asarray(y / (1 + exact_math.exp(-self.multiply(n, experts.shared_router))))

    def logits(self, step: Step, x: F32, norm: Norm, head: Weight, scale: float, softcap: float | None) -> F32:
        return capped(self.multiply(normalize(x[step.rows], norm), head) * scale, softcap)


def expert_shares(logits: F32, experts: Experts) -> F32:
    """What each expert's output is multiplied by: float32 [tokens, experts], 0 for those not taken."""
    probabilities = softmax(logits)
    taken = np.argsort(-probabilities, axis=-1, kind="stable")[:, : experts.used]  # stable: ties to the lower index
    kept = np.take_along_axis(probabilities, taken, -1)
    if experts.renormalize:
        kept = kept / exact_math.total(kept)
    shares = np.zeros_like(probabilities)
    np.put_along_axis(shares, taken, kept * experts.scale, -1)
    return shares


def _places(table: I32, requests: I32, positions: I32, kv: ReferencePages) -> tuple[I32, I32]:
    """Page and slot of each (request, position)."""
    size = kv.keys.shape[1]
    pages = table[requests, positions // size]
    assert (pages >= 0).all(), "a token's page was given back or never taken"
    return pages, positions % size


def _visible(step: Step, kv: ReferencePages, window: int | None) -> Iterator[tuple[int, F32, F32, F32]]:
    """Per token: its index, the keys and values it may see [seen, kv_heads, head_dim], and key minus query position."""
    for token, (request, position) in enumerate(zip(step.request_of, step.positions, strict=True)):
        first = 0 if window is None else max(0, int(position) - window + 1)
        seen = np.arange(first, int(position) + 1, dtype=np.int32)
        pages, slots = _places(step.page_tables[kv.group], np.full_like(seen, request), seen, kv)
        yield token, kv.keys[pages, slots], kv.values[pages, slots], (seen - position).astype(np.float32)
