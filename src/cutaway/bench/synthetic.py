"""Random weights in the shape of known models, generated in memory, so that large models can be measured without a
download.

The result is a `ModelFile` like that of a GGUF file, so that it is loaded in the usual way. All tensors of a type are
views of one run of random blocks; packing gives each its own memory. Shapes: the models' own config.json.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.errors import ParameterError
from cutaway.formats import BLOCKS, ModelFile, Tensor, dequantize
from cutaway.ops.native.packing import TYPE_NUMBERS
from cutaway.ops.protocol import U8

_POOL_BLOCKS = 4096


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's sizes. experts, used: 0 for a dense one; intermediate is then one expert's width."""

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    rope_base: float
    tied: bool = False
    experts: int = 0
    used: int = 0


SHAPES: Mapping[str, Shape] = {
    "smollm2-135m": Shape("llama", 30, 576, 9, 3, 64, 1536, 49152, 1e5, tied=True),
    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 14, 2, 64, 4864, 151936, 1e6, tied=True),
    "llama-3.2-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128256, 5e5, tied=True),
    "llama-3.2-3b": Shape("llama", 28, 3072, 24, 8, 128, 8192, 128256, 5e5, tied=True),
    "qwen3-4b": Shape("qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 1e6, tied=True),
    "llama-3-8b": Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256, 5e5),
    "qwen3-8b": Shape("qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 1e6),
    "qwen3-14b": Shape("qwen3", 40, 5120, 40, 8, 128, 17408, 151936, 1e6),
    "qwen3-30b-a3b": Shape("qwen3moe", 48, 2048, 32, 4, 128, 768, 151936, 1e6, experts=128, used=8),
}


def synthetic_model(name: str, type: str = "Q4_K", *, seed: int = 0) -> ModelFile:
    """A model of that name's shape, every matrix of that type. Raises ParameterError for an unknown name or type."""
    shape = SHAPES.get(name)
    if shape is None:
        raise ParameterError(f"synthetic is {name!r}; it must be one of {', '.join(SHAPES)}")
    return synthetic_file(name, shape, type, seed=seed)


def synthetic_file(name: str, shape: Shape, type: str, *, seed: int = 0) -> ModelFile:
    """The same for any shape. Rows that are no whole number of blocks of a K-type take Q8_0, as quantizers do it."""
    if type not in TYPE_NUMBERS:
        raise ParameterError(f"the type of synthetic weights is {type!r}; it must be one of {', '.join(TYPE_NUMBERS)}")
    matrices = dict(_matrices(shape))
    kinds = {key: type if extents[-1] % BLOCKS[type][0] == 0 else "Q8_0" for key, extents in matrices.items()}
    largest = {
        kind: max(_bytes(kind, matrices[key]) for key in matrices if kinds[key] == kind) for kind in set(kinds.values())
    }
    blocks = {kind: random_blocks(kind, size, seed) for kind, size in largest.items()}
    tensors = {
        f"{key}.weight": Tensor(f"{key}.weight", kinds[key], extents, blocks[kinds[key]][: _bytes(kinds[key], extents)])
        for key, extents in matrices.items()
    }
    for key, width in _vectors(shape):
        tensors[key] = Tensor(key, "F32", (width,), np.ones(width, np.float32).view(np.uint8))
    return ModelFile(Path(name), "gguf", (), tensors, metadata=_metadata(shape))


def random_blocks(type: str, size: int, seed: int = 0) -> U8:
    """uint8 [size]: random blocks whose values are those of weights, neither huge nor all tiny."""
    rng = np.random.default_rng(seed)
    elements, block = BLOCKS[type]
    if type in ("F32", "F16", "BF16"):
        values = rng.normal(0, 0.02, 1 << 20).astype(np.float32)
        if type == "BF16":
            return np.resize((values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8), size)
        return np.resize((values if type == "F32" else values.astype(np.float16)).view(np.uint8), size)
    pool = np.zeros((0, block), np.uint8)
    while len(pool) < _POOL_BLOCKS:
        raw = rng.integers(0, 256, (2 * _POOL_BLOCKS, block), dtype=np.uint8)
        with np.errstate(all="ignore"):
            top = np.abs(dequantize(type, raw.reshape(-1), (len(raw), elements))).max(1)
        pool = np.concatenate([pool, raw[(top > 1e-2) & (top < 0.2)]])
    return np.resize(pool.reshape(-1), size)


def held_bytes(file: ModelFile) -> int:
    """Bytes of the runs that all tensors of a synthetic model are views of."""
    largest: dict[str, int] = {}
    for tensor in file.tensors.values():
        largest[tensor.type] = max(largest.get(tensor.type, 0), tensor.raw.nbytes)
    return sum(largest.values())


def _bytes(type: str, extents: tuple[int, ...]) -> int:
    elements, block = BLOCKS[type]
    return math.prod(extents) // elements * block


def _matrices(s: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """GGUF names and shapes [rows, inputs]; experts stacked [experts, rows, inputs]."""
    width, kv_width = s.heads * s.head_dim, s.kv_heads * s.head_dim
    yield "token_embd", (s.vocab, s.hidden)
    if not s.tied:
        yield "output", (s.vocab, s.hidden)
    for layer in range(s.layers):
        for name, extents in (
            ("attn_q", (width, s.hidden)), ("attn_k", (kv_width, s.hidden)), ("attn_v", (kv_width, s.hidden)),
            ("attn_output", (s.hidden, width)),
        ):  # fmt: skip
            yield f"blk.{layer}.{name}", extents
        stack, suffix = ((s.experts,), "_exps") if s.experts else ((), "")
        for name, extents in (
            ("gate", (s.intermediate, s.hidden)),
            ("up", (s.intermediate, s.hidden)),
            ("down", (s.hidden, s.intermediate)),
        ):
            yield f"blk.{layer}.ffn_{name}{suffix}", (*stack, *extents)
        if s.experts:
            yield f"blk.{layer}.ffn_gate_inp", (s.experts, s.hidden)


def _vectors(s: Shape) -> Iterator[tuple[str, int]]:
    """Norms, and the biases that Qwen2 has."""
    yield "output_norm.weight", s.hidden
    for layer in range(s.layers):
        yield f"blk.{layer}.attn_norm.weight", s.hidden
        yield f"blk.{layer}.ffn_norm.weight", s.hidden
        if s.architecture.startswith("qwen3"):
            yield f"blk.{layer}.attn_q_norm.weight", s.head_dim
            yield f"blk.{layer}.attn_k_norm.weight", s.head_dim
        if s.architecture == "qwen2":
            yield f"blk.{layer}.attn_q.bias", s.heads * s.head_dim
            yield f"blk.{layer}.attn_k.bias", s.kv_heads * s.head_dim
            yield f"blk.{layer}.attn_v.bias", s.kv_heads * s.head_dim


def _metadata(s: Shape) -> dict[str, Any]:
    values: dict[str, Any] = {
        "block_count": s.layers,
        "embedding_length": s.hidden,
        "feed_forward_length": s.intermediate,
        "context_length": 40960,
        "attention.head_count": s.heads,
        "attention.head_count_kv": s.kv_heads,
        "attention.key_length": s.head_dim,
        "attention.value_length": s.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": s.rope_base,
    }
    if s.experts:
        values |= {"expert_count": s.experts, "expert_used_count": s.used, "expert_feed_forward_length": s.intermediate}
    return {"general.architecture": s.architecture} | {
        f"{s.architecture}.{key}": value for key, value in values.items()
    }
