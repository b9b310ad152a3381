"""A model's outline: loaded and recorded without data, it says what any context and any number of requests take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from cutaway.formats import ModelFile, without_data
from cutaway.model import Decoder, ModelSpec, RopeScaling, kv_groups, kv_layout, load_decoder
from cutaway.model.tensor_source import TensorSource
from cutaway.ops.backend import Backend, StepLimits
from cutaway.ops.outline import Outline, Scratch
from cutaway.ops.protocol import KVLayout, KVType, Norm
from cutaway.planner.memory import PAGE_SIZE, GroupCost, MemoryPlan, TypeCost, kv_pages


@dataclass(frozen=True, slots=True)
class ModelOutline:
    """What does not depend on context, requests and key-value types. Bytes.

    decoder: over weights without data; it can be counted (bench/cost.py) and never run. mapped: the embedding table,
    read where it lies in the file.
    """

    spec: ModelSpec
    limits: StepLimits
    decoder: Decoder
    weights: tuple[TypeCost, ...]
    vectors: int
    mapped: int
    _outline: Outline
    _recorded: dict[tuple[KVType, KVType], Callable[[int], Scratch]] = field(default_factory=dict)

    def memory(
        self, *, context: int, requests: int = 1, key_type: KVType = "bf16", value_type: KVType = "bf16"
    ) -> MemoryPlan:
        """What the model takes when so many requests may fill the context at once."""
        layout = self.layout(context, requests, key_type, value_type)
        tail = self._outline.pool_bytes
        groups = tuple(
            GroupCost(g.window, len(g.layers), g.pages, layout.page_bytes(g) * g.pages + tail) for g in layout.groups
        )
        return MemoryPlan(
            context=context,
            requests=requests,
            key_type=key_type,
            value_type=value_type,
            weights=self.weights,
            groups=groups,
            token_bytes=layout.token_bytes() * self.spec.layers,
            vectors=self.vectors,
            positions=self._outline.copies * position_bytes(self.spec, context),
            step=self.scratch(context, requests, key_type, value_type),
            mapped=self.mapped,
            limits=self.limits,
        )

    def layout(self, context: int, requests: int, key_type: KVType, value_type: KVType) -> KVLayout:
        """How keys and values lie then."""
        pages = kv_pages(
            self.spec, context=context, page_size=PAGE_SIZE, requests=requests, chunk=self.limits.tokens
        )  # fmt: skip
        return kv_layout(self.spec, pages=pages, page_size=PAGE_SIZE, key_type=key_type, value_type=value_type)

    def scratch(self, context: int, requests: int, key_type: KVType, value_type: KVType) -> Scratch:
        """What the recorded step holds. A request is bounded by the tables of positions, or else by the pages."""
        bounded = self.spec.positions in ("learned", "sinusoidal") or any(
            self.spec.layer_rope(layer) for layer in range(self.spec.layers)
        )
        pages = self.layout(context, requests, key_type, value_type).groups
        tokens = context if bounded else max(g.pages for g in pages) * PAGE_SIZE
        key = (key_type, value_type)
        if key not in self._recorded:
            self._recorded[key] = self._outline.record(self.opened(key_type, value_type).forward)
        return self._recorded[key](tokens)

    def opened(self, key_type: KVType, value_type: KVType) -> Decoder:
        """The decoder with a page of each kind, so that its forward pass can be recorded or counted."""
        one_page = tuple(1 for _ in kv_groups(self.spec))
        self.decoder.cache = self._outline.open_cache(
            kv_layout(self.spec, pages=one_page, page_size=PAGE_SIZE, key_type=key_type, value_type=value_type)
        )
        return self.decoder


def outline_model(
    file: ModelFile, spec: ModelSpec, backend: Backend, rope_scaling: RopeScaling | None = None
) -> ModelOutline:
    """Load the outline of an opened file. Reads nothing but what `open_model` has read.

    Raises FormatError, UnsupportedError, and ParameterError for a scaling that the model cannot have.
    """
    bare, outline = without_data(file), backend.outline()
    # Tables of positions are counted, not made, except what the file has.
    # The loader uses only `weight` and `table` of a backend, and an outline has both.
    decoder = load_decoder(bare, spec, cast(Backend, outline), context=PAGE_SIZE, rope_scaling=rope_scaling)
    norms = sum(n.weight.nbytes + (0 if n.bias is None else n.bias.nbytes) for n in _norms(decoder))
    weights = (TypeCost(kind, p.matrices, p.file, p.packed) for kind, p in outline.packed.items())
    return ModelOutline(
        spec=spec,
        limits=backend.limits,
        decoder=decoder,
        weights=tuple(sorted(weights, key=lambda c: (-c.packed, c.type))),
        vectors=outline.copies * norms + outline.bias_bytes,
        mapped=TensorSource.of(file, spec).take("embedding").raw.nbytes,
        _outline=outline,
    )


def _norms(decoder: Decoder) -> Iterator[Norm]:
    found = [decoder.norm, decoder.embedding_norm]
    for layer in decoder.layers:
        found += [layer.attention_norm, layer.feed_norm, layer.attention_post_norm, layer.feed_post_norm]
        found += [layer.q_norm, layer.k_norm]
    return (norm for norm in found if norm is not None)


def position_bytes(spec: ModelSpec, context: int) -> int:
    """Rotary tables (cos and sin, one pair per kind of layer) or the position table, float32, once."""
    ropes = {spec.layer_rope(layer) for layer in range(spec.layers)} - {None}
    tables = sum(2 * context * (rope.rotary_dim // 2) * 4 for rope in ropes if rope is not None)
    return tables + (context * spec.hidden * 4 if spec.positions in ("learned", "sinusoidal") else 0)
