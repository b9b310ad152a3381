"""The decoder, once, for every family. What differs between families is data: which norms a layer has, which scales.

A layer reads as the papers draw it; each line is one operation of a backend (see ops/protocol).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cutaway.model.spec import ModelSpec
from cutaway.ops.backend import Backend
from cutaway.ops.protocol import F32, Attention, Experts, Hidden, KVLayer, KVLayout, Norm, Ops, Rope, Step, Weight
from cutaway.ops.rows import Rows


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense feed-forward; without `gate` it is activation(up)."""

    gate: Weight | None
    up: Weight
    down: Weight


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights. A norm that is None is not there: OLMo 2 has no norms before, most have none after."""

    attention: Attention
    rope: Rope | None
    qkv: tuple[Weight, Weight, Weight]
    output: Weight
    feed: FeedForward | Experts
    attention_norm: Norm | None
    feed_norm: Norm | None
    attention_post_norm: Norm | None
    feed_post_norm: Norm | None
    q_norm: Norm | None
    k_norm: Norm | None


@dataclass(slots=True)
class Decoder:
    """A loaded model. Only `open_cache` changes it.

    embedding: what ops.table returned. positions: float32 [context, hidden], learned or sinusoidal, or None.
    """

    spec: ModelSpec
    backend: Backend
    context: int
    embedding: Any
    layers: tuple[Layer, ...]
    norm: Norm
    head: Weight
    positions: F32 | None = None
    embedding_norm: Norm | None = None
    cache: list[KVLayer] = field(default_factory=list)

    def open_cache(self, layout: KVLayout) -> None:
        """Allocate the pages that `forward` reads and writes; an earlier cache is dropped."""
        self.cache = self.backend.open_cache(layout)

    def step_function(self) -> Callable[[Step], Rows]:
        """From a step to its rows of logits, as one call. Call `open_cache` first."""
        return self.backend.record(self.forward)

    def forward(self, ops: Ops, step: Step) -> Hidden:
        """One pass over a step: logits [rows, vocab]."""
        spec = self.spec
        x = ops.embed(step, self.embedding, spec.embedding_scale)
        if self.positions is not None:
            x = ops.add_positions(step, x, self.positions)
        if self.embedding_norm is not None:
            x = ops.normalize(step, x, self.embedding_norm)
        for layer, kv in zip(self.layers, self.cache, strict=True):
            q, k, v = ops.project(step, x, layer.attention_norm, layer.qkv)
            q = ops.rotate_store(step, q, k, v, kv, layer.attention, layer.rope, layer.q_norm, layer.k_norm)
            a = ops.attend(step, q, kv, layer.attention)
            x = ops.project_add(step, x, a, layer.output, layer.attention_post_norm, spec.residual_scale)
            if isinstance(layer.feed, Experts):
                x = ops.mix_experts(step, x, layer.feed_norm, layer.feed, spec.activation)
            else:
                h = ops.feed(step, x, layer.feed_norm, layer.feed.gate, layer.feed.up, spec.activation)
                x = ops.project_add(step, x, h, layer.feed.down, layer.feed_post_norm, spec.residual_scale)
        return ops.logits(step, x, self.norm, self.head, spec.logit_scale, spec.logit_softcap)
