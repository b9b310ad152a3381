"""Known models by their sizes alone, for planning where there is no file. Source: each model's own config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cutaway.errors import ParameterError
from cutaway.model import ModelSpec
from cutaway.model.spec_config import spec_from_config


def _config(kind: str, sizes: tuple[int, int, int, int, int, int], context: int, **more: Any) -> dict[str, Any]:
    """sizes: layers, hidden, heads, kv_heads, intermediate, vocab."""
    names = (
        "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size",
        "vocab_size",
    )  # fmt: skip
    sized = dict(zip(names, sizes, strict=True))
    return {"model_type": kind, **sized, "max_position_embeddings": context, "tie_word_embeddings": False, **more}


_TIED = {"tie_word_embeddings": True}
_LLAMA3 = {"rope_theta": 5e5}
_GEMMA3 = {"head_dim": 256, "sliding_window": 1024, "sliding_window_pattern": 6, **_TIED}
_QWEN3_MOE = {"head_dim": 128, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "smollm2-135m": _config("llama", (30, 576, 9, 3, 1536, 49152), 8192, **_TIED),
    "qwen2.5-0.5b": _config("qwen2", (24, 896, 14, 2, 4864, 151936), 32768, **_TIED),
    "qwen2.5-7b": _config("qwen2", (28, 3584, 28, 4, 18944, 152064), 32768),
    "qwen2.5-14b": _config("qwen2", (48, 5120, 40, 8, 13824, 152064), 32768),
    "qwen2.5-32b": _config("qwen2", (64, 5120, 40, 8, 27648, 152064), 32768),
    "qwen2.5-72b": _config("qwen2", (80, 8192, 64, 8, 29568, 152064), 32768),
    # Qwen1.5-14B: as many key-value heads as heads.
    "qwen-14b": _config("qwen2", (40, 5120, 40, 40, 13696, 152064), 32768),
    "qwen3-8b": _config("qwen3", (36, 4096, 32, 8, 12288, 151936), 40960, head_dim=128),
    "qwen3-14b": _config("qwen3", (40, 5120, 40, 8, 17408, 151936), 40960, head_dim=128),
    "qwen3-30b-a3b": _config("qwen3_moe", (48, 2048, 32, 4, 6144, 151936), 40960, **_QWEN3_MOE),
    "llama-2-7b": _config("llama", (32, 4096, 32, 32, 11008, 32000), 4096),
    "llama-3-8b": _config("llama", (32, 4096, 32, 8, 14336, 128256), 8192, **_LLAMA3),
    "llama-3.1-8b": _config("llama", (32, 4096, 32, 8, 14336, 128256), 131072, **_LLAMA3),
    "llama-3.1-70b": _config("llama", (80, 8192, 64, 8, 28672, 128256), 131072, **_LLAMA3),
    "llama-3.2-1b": _config("llama", (16, 2048, 32, 8, 8192, 128256), 131072, **_LLAMA3, **_TIED),
    "llama-3.2-3b": _config("llama", (28, 3072, 24, 8, 8192, 128256), 131072, **_LLAMA3, **_TIED, head_dim=128),
    "mistral-7b": _config("mistral", (32, 4096, 32, 8, 14336, 32000), 32768, sliding_window=4096),
    "mixtral-8x7b": _config("mixtral", (32, 4096, 32, 8, 14336, 32000), 32768, num_local_experts=8,
                            num_experts_per_tok=2),
    "phi-3-mini": _config("phi3", (32, 3072, 32, 32, 8192, 32064), 4096),
    "gemma-3-4b": _config("gemma3_text", (34, 2560, 8, 4, 10240, 262208), 131072, **_GEMMA3),
    "gemma-3-27b": _config("gemma3_text", (62, 5376, 32, 16, 21504, 262208), 131072, **{**_GEMMA3, "head_dim": 128},
                           query_pre_attn_scalar=168),
}  # fmt: skip

SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "context", "window", "experts",
         "used")  # fmt: skip
"""What `--set NAME=VALUE` may change."""


def shape_spec(name: str) -> ModelSpec:
    """The spec of a known model. Raises ParameterError for an unknown name."""
    if name not in SHAPES:
        raise ParameterError(f"no model's sizes are known as {name!r}", hint=f"known: {', '.join(SHAPES)}")
    return spec_from_config(SHAPES[name])


def with_sizes(spec: ModelSpec, changes: Sequence[str]) -> ModelSpec:
    """The spec with sizes changed: "kv_heads=64". window: of the layers that have one, 0 for none; where no layer has
    one, of all. Raises ParameterError for what is no size, FormatError where sizes contradict each other."""
    for change in changes:
        name, _, text = change.partition("=")
        if name not in SIZES or not text.isascii() or not text.isdigit():
            raise ParameterError(f"{change!r} is not valid for --set", hint=f"NAME=NUMBER; names: {', '.join(SIZES)}")
        value = int(text)
        if not (0 if name == "window" else 1) <= value <= 1 << 24 or (name == "layers" and value > 4096):
            raise ParameterError(f"--set {name} is {value}, which is out of range")
        spec = _with_size(spec, name, value)
    return spec


def _with_size(spec: ModelSpec, name: str, value: int) -> ModelSpec:
    if name == "layers":
        each: dict[str, Any] = {
            field: tuple(getattr(spec, field)[i % spec.layers] for i in range(value))
            for field in ("windows", "rope_layers", "expert_layers")
        }
        return replace(spec, layers=value, **each)
    if name == "window":
        windowed = any(spec.windows)
        return replace(spec, windows=tuple((value or None) if w or not windowed else None for w in spec.windows))
    if name in ("experts", "used"):
        if spec.experts is None:
            raise ParameterError(f"--set {name}: the model has no experts")
        field = "count" if name == "experts" else "used"
        changes: dict[str, Any] = {field: value}
        return replace(spec, experts=replace(spec.experts, **changes))
    if name == "head_dim":
        ropes: dict[str, Any] = {
            field: replace(rope, rotary_dim=value * rope.rotary_dim // spec.head_dim)
            for field in ("rope", "local_rope")
            if (rope := getattr(spec, field)) is not None
        }
        return replace(spec, head_dim=value, attention_scale=value**-0.5, **ropes)
    if name == "intermediate" and spec.experts is not None:
        return replace(spec, intermediate=value, experts=replace(spec.experts, intermediate=value))
    sizes: dict[str, Any] = {name: value}
    return replace(spec, **sizes)
