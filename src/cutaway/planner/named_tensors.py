"""The tensors that a model of some sizes has: from a spec alone to the outline of a file."""

from __future__ import annotations

from collections.abc import Iterator

from cutaway.formats import ModelFile, outline_of
from cutaway.model import ModelSpec
from cutaway.model.tensor_names import NAMES, Names
from cutaway.planner.mixes import Mix, type_of

Named = tuple[str, int, int, str, tuple[int, ...]]
"""(our name, layer, expert, suffix, row-major shape)"""


def outline_from_spec(spec: ModelSpec, mix: Mix, name: str = "model") -> ModelFile:
    """The outline of a file that holds a model of this spec, its matrices in the types of the mix.

    Named as GGUF names them where it has the family: what lies otherwise in safetensors (transposed, interleaved)
    takes the same bytes.
    """
    format = "gguf" if spec.family in NAMES["gguf"] else "safetensors"
    names = NAMES[format][spec.family]

    def tensors() -> Iterator[tuple[str, str, tuple[int, ...]]]:
        for ours, layer, expert, suffix, shape in _tensors(spec, names):
            template = next((t for t in names.tensors[ours] if ("{expert}" in t) == (expert >= 0)), None)
            assert template is not None, ours
            stem = template.format(model=names.prefixes[0], layer=layer, expert=max(expert, 0))
            vector = len(shape) == 1 or ours == "positions"
            yield f"{stem}.{suffix}", "F32" if vector else type_of(mix, ours, layer, shape[-1], spec), shape

    return outline_of(name, format, tensors())


def _tensors(spec: ModelSpec, names: Names) -> Iterator[Named]:
    has, hidden = names.tensors.__contains__, spec.hidden
    yield "embedding", 0, -1, "weight", (spec.vocab, hidden)
    if not spec.tied:
        yield "head", 0, -1, "weight", (spec.vocab, hidden)
    if has("positions"):
        yield "positions", 0, -1, "weight", (spec.context + spec.position_offset, hidden)
    for norm in ("embedding_norm", "norm"):
        if has(norm):
            yield from _norm(spec, norm, 0, hidden)
    for layer in range(spec.layers):
        for norm in ("attention_norm", "attention_post_norm", "feed_norm", "feed_post_norm"):
            if has(norm):
                yield from _norm(spec, norm, layer, hidden)
        whole_row = spec.family == "olmo2"
        for norm, heads in (("q_norm", spec.heads), ("k_norm", spec.kv_heads)):
            if has(norm):
                yield norm, layer, -1, "weight", (heads * spec.head_dim if whole_row else spec.head_dim,)
        for ours, rows, inputs in _matrices(spec, names, layer):
            yield ours, layer, -1, "weight", (rows, inputs)
            if ours in names.biases:
                yield ours, layer, -1, "bias", (rows,)
        if spec.experts is not None and spec.expert_layers[layer]:
            yield from _experts(spec, names, layer)


def _norm(spec: ModelSpec, name: str, layer: int, width: int) -> Iterator[Named]:
    yield name, layer, -1, "weight", (width,)
    if spec.norm == "layer":
        yield name, layer, -1, "bias", (width,)


def _matrices(spec: ModelSpec, names: Names, layer: int) -> Iterator[tuple[str, int, int]]:
    """(our name, rows, inputs) of attention, and of a dense feed-forward."""
    has, hidden, width = names.tensors.__contains__, spec.hidden, spec.intermediate
    q, kv = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    if has("qkv"):
        yield "qkv", q + 2 * kv, hidden
    else:
        yield from (("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden))
    yield "output", hidden, q
    if spec.experts is not None and spec.expert_layers[layer]:
        return
    if has("gate_up"):
        yield "gate_up", 2 * width, hidden
    else:
        if has("gate"):
            yield "gate", width, hidden
        yield "up", width, hidden
    yield "down", hidden, width


def _experts(spec: ModelSpec, names: Names, layer: int) -> Iterator[Named]:
    experts, hidden = spec.experts, spec.hidden
    assert experts is not None
    count, width, shared = experts.count, experts.intermediate, experts.shared
    yield "router", layer, -1, "weight", (count, hidden)
    for name, rows, inputs in (("gate", width, hidden), ("up", width, hidden), ("down", hidden, width)):
        ours = f"expert_{name}"
        if any("{expert}" not in t for t in names.tensors[ours]):
            yield ours, layer, -1, "weight", (count, rows, inputs)
        else:
            yield from ((ours, layer, expert, "weight", (rows, inputs)) for expert in range(count))
    if shared:
        for name, rows, inputs in (("gate", shared, hidden), ("up", shared, hidden), ("down", hidden, shared)):
            yield f"shared_{name}", layer, -1, "weight", (rows, inputs)
        yield "shared_router", layer, -1, "weight", (hidden,)
