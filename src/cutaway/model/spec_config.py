"""A spec from a config.json as transformers writes it, versions 4 (`rope_scaling`) and 5 (`rope_parameters`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutaway.errors import UnsupportedError
from cutaway.model.config_defaults import defaults_for
from cutaway.model.metadata_fields import Fields
from cutaway.model.quantized_config import refuse_quantized
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import ExpertSpec, ModelSpec, RopeSpec
from cutaway.ops.protocol import Activation

ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
MAX_LAYERS = 4096

Special = Callable[[Fields, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ConfigFamily:
    """What a model_type means: defaults for keys its config.json may leave out, and what only it has.

    special: (config, what was read so far) -> spec fields to replace.
    """

    family: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    special: tuple[Special, ...] = ()


def spec_from_config(config: Mapping[str, Any]) -> ModelSpec:
    """The spec of a config.json. Raises FormatError; UnsupportedError for a model_type or quantization by its name."""
    refuse_quantized(config)
    inner = config.get("text_config")
    if isinstance(inner, Mapping):  # a model that also sees: its language part
        config = {k: v for k, v in config.items() if k == "tie_word_embeddings"} | dict(inner)
    name = Fields("config.json", config).text("model_type")
    known = CONFIG_FAMILIES.get(name)
    if known is None:
        raise UnsupportedError(
            f"config.json: model_type {name!r} is not supported", hint="supported: " + ", ".join(CONFIG_FAMILIES)
        )
    given = {**defaults_for(name, config), **known.defaults, **config}
    fields = Fields("config.json", given)  # a null overrides a default: Gemma 2 without caps
    values = _general(fields, known.family)
    for special in known.special:
        values |= special(fields, values)
    return ModelSpec(**values)


def _general(c: Fields, family: str) -> dict[str, Any]:
    layers = c.integer("num_hidden_layers", "n_layer", "num_layers")
    if layers > MAX_LAYERS:
        raise UnsupportedError(f"config.json: {layers} layers, at most {MAX_LAYERS} are supported")
    hidden = c.integer("hidden_size", "n_embd", "d_model", "n_embed")
    heads = c.integer("num_attention_heads", "n_head", "attention_heads")
    head_dim = c.integer("head_dim", default=max(hidden // heads, 1))
    activation = c.text("hidden_activation", "hidden_act", "activation_function", default="silu")
    if activation not in ACTIVATIONS:
        raise UnsupportedError(f"config.json: activation {activation!r}", hint="supported: " + ", ".join(ACTIVATIONS))
    context = c.integer("max_position_embeddings", "n_positions", "n_ctx", "seq_length")
    return {
        "family": family,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": c.integer("num_key_value_heads", default=heads),
        "head_dim": head_dim,
        "intermediate": c.integer("intermediate_size", "n_inner", "ffn_dim", default=4 * hidden),
        "vocab": c.integer("vocab_size"),
        "context": context,
        "norm": "rms",
        "eps": c.positive("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", default=1e-5),
        "activation": ACTIVATIONS[activation],
        "positions": "rope",
        "windows": _windows(c, layers),
        "rope_layers": (True,) * layers,
        "expert_layers": (False,) * layers,
        "attention_scale": head_dim**-0.5,
        "tied": c.flag("tie_word_embeddings", default=False),
        "rope": _rope(c, head_dim, context, "full_attention"),
    }


def _windows(c: Fields, layers: int) -> tuple[int | None, ...]:
    """Per layer: `layer_types` if the file has it, else every layer has the window there is (Mistral)."""
    window = c.integer("sliding_window", default=None, low=0) or None
    if not c.flag("use_sliding_window", default=True):
        window = None
    types = c.find("layer_types")
    if types is None or window is None:
        return (window,) * layers
    unknown = {str(t) for t in types} - {"full_attention", "sliding_attention"}
    if unknown or len(types) != layers:
        raise UnsupportedError(
            f"config.json: layer_types has {len(types)} entries for {layers} layers, unknown: {unknown or 'none'}"
        )
    return tuple(window if t == "sliding_attention" else None for t in types)


def _rope(c: Fields, head_dim: int, context: int, layer_type: str) -> RopeSpec:
    parameters = c.find("rope_parameters")
    if parameters is None:
        parameters = c.find("rope_scaling")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    if isinstance(parameters.get(layer_type), Mapping):  # one set per kind of layer (Gemma 3)
        parameters = parameters[layer_type]
    both = Fields("config.json", {**c.values, **{k: v for k, v in parameters.items() if v is not None}})
    rotary = int(head_dim * both.positive("partial_rotary_factor", default=1.0))
    return RopeSpec(both.positive("rope_theta", default=10_000.0), rotary, _scaling(both, context, parameters))


def _scaling(c: Fields, context: int, parameters: Mapping[str, Any]) -> RopeScaling | None:
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind in ("default", None):
        return None
    kind = {"su": "longrope"}.get(kind, kind)
    original = c.integer("original_max_position_embeddings", default=None)
    growth = context / original if original else None
    if kind not in ("linear", "dynamic", "yarn", "llama3", "longrope"):
        raise UnsupportedError(
            f"config.json: rope_type {kind!r}", hint="supported: default, linear, dynamic, yarn, llama3, longrope"
        )
    return RopeScaling(
        kind=kind,
        factor=c.positive("factor", default=growth),
        original_context=original if kind != "dynamic" else None,
        attention_factor=c.positive("attention_factor", default=None),
        beta_fast=c.positive("beta_fast", default=32.0),
        beta_slow=c.positive("beta_slow", default=1.0),
        truncate=c.flag("truncate", default=True),
        mscale=c.number("mscale", default=None),
        mscale_all_dim=c.number("mscale_all_dim", default=None),
        low_freq_factor=c.positive("low_freq_factor", default=1.0),
        high_freq_factor=c.positive("high_freq_factor", default=4.0),
        short_factors=c.numbers("short_factor"),
        long_factors=c.numbers("long_factor"),
    )


def _uses_window_from(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    """Qwen: a window only if enabled, and only above `max_window_layers`, unless layer_types defines all layers."""
    if not c.flag("use_sliding_window", default=False):
        return {"windows": (None,) * v["layers"]}
    if c.find("layer_types") is not None:
        return {}
    first = c.integer("max_window_layers", default=0, low=0)
    return {"windows": tuple(w if i >= first else None for i, w in enumerate(v["windows"]))}


def _qwen2_moe_windows(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    """Qwen 2 MoE: if enabled, every other layer below `max_window_layers`, unless layer_types defines all layers."""
    if not c.flag("use_sliding_window", default=False):
        return {"windows": (None,) * v["layers"]}
    if c.find("layer_types") is not None:
        return {}
    end = c.integer("max_window_layers", default=28, low=0)
    return {"windows": tuple(w if i % 2 == 0 and i < end else None for i, w in enumerate(v["windows"]))}


def _all_windows_if_used(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    return {} if c.flag("use_sliding_window", default=False) else {"windows": (None,) * v["layers"]}


def _alternate(period: int) -> Special:
    """Windows everywhere except every `period`-th layer (Gemma), unless layer_types says it."""

    def special(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
        if c.find("layer_types") is not None:
            return {}
        every = c.integer("sliding_window_pattern", default=period)
        return {"windows": tuple(w if (i + 1) % every else None for i, w in enumerate(v["windows"]))}

    return special


def _gemma(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    return {
        "attention_scale": c.positive("query_pre_attn_scalar", default=float(v["head_dim"])) ** -0.5,
        "attention_softcap": c.positive("attn_logit_softcapping", default=None),
        "logit_softcap": c.positive("final_logit_softcapping", default=None),
        "embedding_scale": math.sqrt(v["hidden"]),
    }


def _gemma3_local_rope(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    """Window layers have a base of their own and are never scaled."""
    parameters = c.find("rope_parameters")
    local = parameters.get("sliding_attention") if isinstance(parameters, Mapping) else None
    if isinstance(local, Mapping):
        return {"local_rope": _rope(c, v["head_dim"], v["context"], "sliding_attention")}
    return {"local_rope": RopeSpec(c.positive("rope_local_base_freq", default=10_000.0), v["head_dim"])}


def _smollm3(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    """Every fourth layer has no positions, and the window if one is used."""
    flags = c.find("no_rope_layers")
    every = c.integer("no_rope_layer_interval", default=4)
    turned = (
        tuple(bool(f) for f in flags) if flags is not None else tuple((i + 1) % every != 0 for i in range(v["layers"]))
    )
    if len(turned) != v["layers"]:
        raise UnsupportedError(f"config.json: no_rope_layers has {len(turned)} entries for {v['layers']} layers")
    windows = v["windows"] if c.flag("use_sliding_window", default=False) else (None,) * v["layers"]
    if c.find("layer_types") is None:
        windows = tuple(None if rotary else window for rotary, window in zip(turned, windows, strict=True))
    return {"rope_layers": turned, "windows": windows}


def _granite(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    return {
        "attention_scale": c.positive("attention_multiplier", default=1.0),
        "embedding_scale": c.positive("embedding_multiplier", default=1.0),
        "residual_scale": c.positive("residual_multiplier", default=1.0),
        "logit_scale": 1.0 / c.positive("logits_scaling", default=1.0),
    }


def _experts(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    """Mixtral and the Qwens; some layers may stay dense (`mlp_only_layers`, `decoder_sparse_step`)."""
    experts = ExpertSpec(
        count=c.integer("num_local_experts", "num_experts"),
        used=c.integer("num_experts_per_tok"),
        intermediate=c.integer("moe_intermediate_size", "intermediate_size", "ffn_dim"),
        renormalize=c.flag("norm_topk_prob", default=v["family"] == "mixtral"),
        shared=c.integer("shared_expert_intermediate_size", default=0, low=0),
    )
    dense = set(c.numbers("mlp_only_layers"))
    step = c.integer("decoder_sparse_step", default=1)
    return {
        "experts": experts,
        "expert_layers": tuple(i not in dense and (i + 1) % step == 0 for i in range(v["layers"])),
    }


def _layer_norm(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    return {"norm": "layer", "rope": None, "rope_layers": (False,) * v["layers"]}


def _gpt2(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    if c.flag("scale_attn_by_inverse_layer_idx", default=False) or not c.flag("scale_attn_weights", default=True):
        raise UnsupportedError("config.json: GPT-2 with attention scaled by layer or not at all")
    return {"positions": "learned"}


def _bloom(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    if c.flag("apply_residual_connection_post_layernorm", default=False):
        raise UnsupportedError("config.json: BLOOM with apply_residual_connection_post_layernorm")
    return {"positions": "alibi", "activation": "gelu_tanh", "intermediate": 4 * v["hidden"]}


def _xglm(c: Fields, v: dict[str, Any]) -> dict[str, Any]:
    scale = math.sqrt(v["hidden"]) if c.flag("scale_embedding", default=True) else 1.0
    return {"positions": "sinusoidal", "position_offset": 2, "embedding_scale": scale, "eps": 1e-5}


_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6}
_GEMMA3 = _GEMMA | {"rope_theta": 1_000_000.0, "query_pre_attn_scalar": 256, "sliding_window": 4096}
_GEMMA3 |= {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131_072,
    "vocab_size": 262_208,
}
_GEMMA2 = {"query_pre_attn_scalar": 256, "sliding_window": 4096}
_SOFT_CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
_RMS6 = {"rms_norm_eps": 1e-6}
_BLOCKS = {"tie_word_embeddings": True, "layer_norm_epsilon": 1e-5}

CONFIG_FAMILIES: dict[str, ConfigFamily] = {
    "llama": ConfigFamily("llama", {**_RMS6, "max_position_embeddings": 2048}),
    "mistral": ConfigFamily("mistral", _RMS6),
    "qwen2": ConfigFamily("qwen2", _RMS6, (_uses_window_from,)),
    "qwen3": ConfigFamily("qwen3", {**_RMS6, "head_dim": 128}, (_uses_window_from,)),
    "phi3": ConfigFamily("phi3", {"rms_norm_eps": 1e-5}),
    "gemma2": ConfigFamily("gemma2", {**_GEMMA, **_GEMMA2, **_SOFT_CAPS}, (_alternate(2), _gemma)),
    "gemma3_text": ConfigFamily("gemma3", _GEMMA3, (_alternate(6), _gemma, _gemma3_local_rope)),
    "smollm3": ConfigFamily("smollm3", {**_RMS6, "rope_theta": 2_000_000.0, "tie_word_embeddings": True}, (_smollm3,)),
    "granite": ConfigFamily("granite", _RMS6, (_granite,)),
    "olmo2": ConfigFamily("olmo2", {"rms_norm_eps": 1e-5}),
    "mixtral": ConfigFamily("mixtral", {"rope_theta": 1_000_000.0, "num_experts_per_tok": 2}, (_experts,)),
    "qwen2_moe": ConfigFamily("qwen2moe", _RMS6, (_qwen2_moe_windows, _experts)),
    "qwen3_moe": ConfigFamily("qwen3moe", _RMS6, (_all_windows_if_used, _experts)),
    "gpt2": ConfigFamily("gpt2", {**_BLOCKS, "activation_function": "gelu_new"}, (_layer_norm, _gpt2)),
    "bloom": ConfigFamily("bloom", {**_BLOCKS, "seq_length": 2048}, (_layer_norm, _bloom)),
    "xglm": ConfigFamily("xglm", {"tie_word_embeddings": True, "activation_function": "gelu"}, (_layer_norm, _xglm)),
}
