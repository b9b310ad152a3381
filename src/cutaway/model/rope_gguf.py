"""Rotary positions from GGUF metadata: each key is honoured, or refused by its name."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cutaway.errors import FormatError, UnsupportedError
from cutaway.formats import Tensor
from cutaway.model.metadata_fields import Fields
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import RopeSpec

Tensors = Mapping[str, Tensor]
# Keys below "rope." that are honoured here (`finetuned` is a remark); any other would change results and is refused.
_ROPE_KEYS = frozenset(
    [
        "dimension_count",
        "freq_base",
        "scale_linear",
        "scaling.type",
        "scaling.factor",
        "scaling.finetuned",
        "scaling.original_context_length",
        "scaling.attn_factor",
        "scaling.yarn_ext_factor",
        "scaling.yarn_attn_factor",
        "scaling.yarn_beta_fast",
        "scaling.yarn_beta_slow",
    ]
)
_LOCAL_KEYS = frozenset({"freq_base_swa", "local.freq_base"})


def rope_from_gguf(g: Fields, head_dim: int, context: int, tensors: Tensors, *, local: bool) -> RopeSpec:
    """Rotary positions as a file describes them. local: windows have a base of their own (read elsewhere).

    Raises UnsupportedError, which names a key that would change results and is not honoured.
    """
    head = g.prefix + "rope."
    known = _ROPE_KEYS | (_LOCAL_KEYS if local else set())
    unknown = [key for key in g.values if key.startswith(head) and key.removeprefix(head) not in known]
    if unknown:
        raise UnsupportedError(f"GGUF: {unknown[0]} is not supported", hint="without it, answers would be wrong")
    base = g.positive("rope.freq_base", default=10_000.0)
    return RopeSpec(base, g.integer("rope.dimension_count", default=head_dim), _scaling(g, context, tensors))


def _scaling(g: Fields, context: int, tensors: Tensors) -> RopeScaling | None:
    kind = g.text("rope.scaling.type", default="linear")
    factor = g.positive("rope.scaling.factor", "rope.scale_linear", default=None)
    original = g.integer("rope.scaling.original_context_length", default=None)
    attention_factor = g.positive("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", default=None)
    growth = context / original if original else None
    short, long = _floats(tensors, "rope_factors_short.weight"), _floats(tensors, "rope_factors_long.weight")
    factors = _floats(tensors, "rope_freqs.weight")
    if short and long:
        _refuse(g, "longrope", yarn_ext_factor=0.0)
        return RopeScaling(
            "longrope", growth, original, attention_factor=attention_factor, short_factors=short, long_factors=long
        )
    if factors:
        if kind not in ("none", "linear") or (factor or 1.0) != 1.0:
            raise UnsupportedError(f"GGUF: rope_freqs.weight together with rope scaling {kind!r}")
        _refuse(g, kind, yarn_ext_factor=0.0, attn_factor=1.0, yarn_attn_factor=1.0)
        return RopeScaling("factors", factors=factors)
    if kind == "yarn" and g.number("rope.scaling.yarn_ext_factor", default=None) == 0:
        factor, kind = factor or growth, "linear"  # nothing extrapolated: YaRN without its ramp
    if kind in ("none", "linear"):
        _refuse(g, kind, yarn_ext_factor=0.0, attn_factor=1.0, yarn_attn_factor=1.0)
        scaled = kind == "linear" and factor is not None and factor != 1.0
        return RopeScaling("linear", factor) if scaled else None
    if kind == "yarn":
        _refuse(g, kind, yarn_ext_factor=1.0)
        return RopeScaling(
            "yarn",
            factor or growth,
            original,
            attention_factor=_yarn_attention_factor(factor or growth or 1.0, attention_factor),
            beta_fast=g.positive("rope.scaling.yarn_beta_fast", default=32.0),
            beta_slow=g.positive("rope.scaling.yarn_beta_slow", default=1.0),
        )
    raise UnsupportedError(f"GGUF: rope scaling {kind!r}", hint="supported: none, linear, yarn, longrope")


def _refuse(g: Fields, kind: str, **allowed: float) -> None:
    """Names what a kind of scaling has no use for, unless it has the value that changes nothing (below 0: unset)."""
    for name, value in allowed.items():
        key = f"rope.scaling.{name}"
        found = g.number(key, default=value)
        if found != value and found >= 0:
            raise UnsupportedError(f"GGUF: {g.prefix}{key} is {found:g} with rope scaling {kind!r}, not {value:g}")


def _yarn_attention_factor(factor: float, extra: float | None) -> float | None:
    """ggml multiplies its `attn_factor` with the paper's own term; None leaves the term alone."""
    return None if extra is None or extra == 1.0 else extra * (0.1 * math.log(factor) + 1.0)


def _floats(tensors: Tensors, name: str) -> tuple[float, ...]:
    tensor = tensors.get(name)
    if tensor is None:
        return ()
    if tensor.type != "F32" or len(tensor.shape) != 1:
        raise FormatError(f"GGUF: tensor {name} must be a row of F32, it is {tensor.type} {tensor.shape}")
    return tuple(float(x) for x in tensor.raw.view(np.float32))
