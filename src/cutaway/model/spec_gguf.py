"""A spec from GGUF metadata. Key names: ggml's GGUF specification; values a file leaves out: as llama.cpp has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutaway.errors import FormatError, UnsupportedError
from cutaway.model.metadata_fields import Fields, ReadKeys
from cutaway.model.rope_gguf import Tensors, rope_from_gguf
from cutaway.model.spec import ExpertSpec, ModelSpec, RopeSpec
from cutaway.model.spec_config import MAX_LAYERS
from cutaway.model.unread_keys import cautions_of_keys, refuse_unread

Special = Callable[[Fields, dict[str, Any], Tensors], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class GGUFFamily:
    """What a `general.architecture` means. defaults: spec fields; special: what only it has, from the metadata."""

    family: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    special: tuple[Special, ...] = ()


def spec_from_gguf(metadata: Mapping[str, Any], tensors: Tensors) -> ModelSpec:
    """The spec that a GGUF header describes. `tensors` gives the vocabulary's size and small rope tensors.

    Raises FormatError, or UnsupportedError for an unknown architecture or a key that changes answers and is not
    supported.
    """
    values, prefix, read = _values(metadata, tensors)
    refuse_unread(metadata, prefix, read)
    return ModelSpec(**values)


def gguf_cautions(metadata: Mapping[str, Any], tensors: Tensors) -> list[str]:
    """Warnings that name the keys of a header that nothing here reads or knows. Raises as `spec_from_gguf`."""
    _, prefix, read = _values(metadata, tensors)
    return cautions_of_keys(metadata, prefix, read)


def _values(metadata: Mapping[str, Any], tensors: Tensors) -> tuple[dict[str, Any], str, set[str]]:
    """The spec's fields, the prefix of the architecture's keys, and the keys that were read."""
    name = Fields("GGUF", metadata).text("general.architecture")
    known = GGUF_FAMILIES.get(name)
    if known is None:
        raise UnsupportedError(
            f"GGUF: architecture {name!r} is not supported", hint="supported: " + ", ".join(GGUF_FAMILIES)
        )
    keys = ReadKeys(metadata)
    fields = Fields("GGUF", keys, prefix=f"{name}.")
    values = _general(fields, tensors, known.family) | dict(known.defaults)
    for special in known.special:
        values |= special(fields, values, tensors)
    return values, fields.prefix, keys.read


def _general(g: Fields, tensors: Tensors, family: str) -> dict[str, Any]:
    layers, hidden, heads = g.integer("block_count"), g.integer("embedding_length"), g.integer("attention.head_count")
    if layers > MAX_LAYERS:
        raise UnsupportedError(f"GGUF: {layers} layers, at most {MAX_LAYERS} are supported")
    head_dim = g.integer("attention.key_length", default=max(hidden // heads, 1))
    if g.integer("attention.value_length", default=head_dim) != head_dim:
        raise UnsupportedError("GGUF: keys and values of different widths are not supported")
    context = g.integer("context_length")
    window = g.integer("attention.sliding_window", default=None, low=0) or None
    return {
        "family": family,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": g.integer("attention.head_count_kv", default=heads),
        "head_dim": head_dim,
        "intermediate": g.integer("feed_forward_length", default=4 * hidden),
        "vocab": _vocab(tensors),
        "context": context,
        "norm": "rms",
        "eps": g.positive("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"),
        "activation": "silu",
        "positions": "rope",
        "windows": (window,) * layers,
        "rope_layers": (True,) * layers,
        "expert_layers": (False,) * layers,
        "attention_scale": head_dim**-0.5,
        "tied": "output.weight" not in tensors,
        "rope": rope_from_gguf(g, head_dim, context, tensors, local=family == "gemma3"),
    }


def _vocab(tensors: Tensors) -> int:
    embedding = tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise FormatError("GGUF: tensor token_embd.weight is missing or not a matrix")
    return embedding.shape[0]


def _refuse_window(g: Fields, v: dict[str, Any], _: Tensors) -> dict[str, Any]:
    """OLMo 3 calls itself olmo2 and has windows, with other positions in them."""
    if any(v["windows"]):
        raise UnsupportedError("GGUF: olmo2 with a sliding window (OLMo 3) is not supported")
    return {}


def _no_window(g: Fields, v: dict[str, Any], _: Tensors) -> dict[str, Any]:
    return {"windows": (None,) * v["layers"]}


def _alternate(period: int, window: int) -> Special:
    """Gemma: windows everywhere except every `period`-th layer; files seldom carry the pattern (case C56)."""

    def special(g: Fields, v: dict[str, Any], _: Tensors) -> dict[str, Any]:
        width = v["windows"][0] or window
        pattern = g.find("attention.sliding_window_pattern")
        if isinstance(pattern, (int, np.integer)) and not isinstance(pattern, bool):
            pattern = [bool((i + 1) % max(int(pattern), 1)) for i in range(v["layers"])]
        if pattern is None:
            pattern = [bool((i + 1) % period) for i in range(v["layers"])]
        if len(pattern) != v["layers"]:
            raise FormatError(f"GGUF: sliding_window_pattern has {len(pattern)} entries for {v['layers']} layers")
        return {"windows": tuple(width if local else None for local in pattern)}

    return special


def _gemma(wide_layers: int) -> Special:
    """The largest model (recognized by its number of layers) scales queries by hidden / heads instead of head_dim."""

    def special(g: Fields, v: dict[str, Any], _: Tensors) -> dict[str, Any]:
        width = v["hidden"] / v["heads"] if v["layers"] == wide_layers else v["head_dim"]
        return {
            "attention_scale": width**-0.5,
            "attention_softcap": g.positive("attn_logit_softcapping", default=v.get("attention_softcap")),
            "logit_softcap": g.positive("final_logit_softcapping", default=v.get("logit_softcap")),
            "embedding_scale": math.sqrt(v["hidden"]),
        }

    return special


def _gemma3_ropes(g: Fields, v: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Window layers: base 10,000, never scaled. The base of full layers is 1,000,000 when the file does not say."""
    base = g.positive("rope.freq_base", default=1_000_000.0)
    local = g.positive("rope.freq_base_swa", "rope.local.freq_base", default=10_000.0)
    return {
        "rope": RopeSpec(base, v["rope"].rotary_dim, v["rope"].scaling),
        "local_rope": RopeSpec(local, v["rope"].rotary_dim),
    }


def _smollm3(g: Fields, v: dict[str, Any], _: Tensors) -> dict[str, Any]:
    return {"rope_layers": tuple((i + 1) % 4 != 0 for i in range(v["layers"]))}


def _granite(g: Fields, v: dict[str, Any], _: Tensors) -> dict[str, Any]:
    return {
        "attention_scale": g.positive("attention.scale", default=v["attention_scale"]),
        "embedding_scale": g.positive("embedding_scale", default=1.0),
        "residual_scale": g.positive("residual_scale", default=1.0),
        "logit_scale": 1.0 / g.positive("logit_scale", default=1.0),
    }


def _experts(renormalize: bool) -> Special:
    """Mixtral (which calls itself llama) and the Qwens. A layer is dense where the file has no router for it."""

    def special(g: Fields, v: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
        count = g.integer("expert_count", default=0, low=0)
        if not count:
            return {}
        experts = ExpertSpec(
            count=count,
            used=g.integer("expert_used_count"),
            intermediate=g.integer("expert_feed_forward_length", "feed_forward_length"),
            renormalize=g.flag("expert_weights_norm", default=renormalize),
            scale=g.positive("expert_weights_scale", default=1.0),
            shared=_shared_width(g, tensors),
        )
        layers = tuple(f"blk.{i}.ffn_gate_inp.weight" in tensors for i in range(v["layers"]))
        return {
            "experts": experts,
            "expert_layers": layers,
            "family": "mixtral" if v["family"] == "llama" else v["family"],
        }

    return special


def _shared_width(g: Fields, tensors: Tensors) -> int:
    shared = next((t for name, t in tensors.items() if name.endswith("ffn_up_shexp.weight")), None)
    width = shared.shape[0] if shared is not None else 0
    return int(g.integer("expert_shared_feed_forward_length", default=width, low=0)) if shared is not None else 0


def _blocks(positions: str) -> Special:
    """GPT-2 and BLOOM: layer norms, GELU, no rotary positions."""

    def special(g: Fields, v: dict[str, Any], _: Tensors) -> dict[str, Any]:
        rope_layers = (False,) * v["layers"]
        return {
            "positions": positions,
            "norm": "layer",
            "activation": "gelu_tanh",
            "rope": None,
            "rope_layers": rope_layers,
        }

    return special


_GEMMA = {"activation": "gelu_tanh"}
_GEMMA2 = {**_GEMMA, "attention_softcap": 50.0, "logit_softcap": 30.0}

GGUF_FAMILIES: dict[str, GGUFFamily] = {
    "llama": GGUFFamily("llama", special=(_experts(True),)),
    "qwen2": GGUFFamily("qwen2", special=(_no_window,)),
    "qwen3": GGUFFamily("qwen3", special=(_no_window,)),
    "phi3": GGUFFamily("phi3"),
    "gemma2": GGUFFamily("gemma2", _GEMMA2, (_alternate(2, 4096), _gemma(46))),
    "gemma3": GGUFFamily("gemma3", _GEMMA, (_alternate(6, 1024), _gemma(62), _gemma3_ropes)),
    "smollm3": GGUFFamily("smollm3", special=(_smollm3,)),
    "granite": GGUFFamily("granite", special=(_granite,)),
    "olmo2": GGUFFamily("olmo2", special=(_refuse_window,)),
    "qwen2moe": GGUFFamily("qwen2moe", special=(_no_window, _experts(False))),
    "qwen3moe": GGUFFamily("qwen3moe", special=(_no_window, _experts(True))),
    "gpt2": GGUFFamily("gpt2", special=(_blocks("learned"),)),
    "bloom": GGUFFamily("bloom", special=(_blocks("alibi"),)),
}
