"""Token positions: rotary tables with their scalings, sinusoidal tables, ALiBi slopes. All are fixed at load.

Inverse frequencies and angles are float32, as in transformers, since at position 100,000 a float32 angle is off by up
to 0.004 and models are compared against it. Sine and cosine of that angle are computed in float64, so that tables do
not depend on the machine's vector library. Sources of the scalings: see rope_scaling.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import FormatError, ParameterError
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import RopeSpec
from cutaway.ops.protocol import F32, Rope

F64 = NDArray[np.float64]


def rope_table(rope: RopeSpec, context: int, trained: int) -> Rope:
    """Tables of one kind of layer: cos, sin float32 [context, rotary_dim / 2].

    context: the configured context, on which dynamic NTK and LongRoPE depend. trained: the model's own context, from
    which the scaling starts if it does not say itself.
    """
    inverse, attention_factor = inverse_frequencies(rope, context, trained)
    cos, sin = (np.empty((context, len(inverse)), np.float32) for _ in range(2))
    for start in range(0, context, 4096):  # in parts, as float64 takes twice the room of the tables
        part = slice(start, min(start + 4096, context))
        positions = np.arange(part.start, part.stop, dtype=np.float32)
        angles = (positions[:, None] * inverse).astype(np.float64)  # a float32 product on purpose
        cos[part], sin[part] = np.cos(angles) * attention_factor, np.sin(angles) * attention_factor
    return Rope(cos, sin, "half")


def inverse_frequencies(rope: RopeSpec, context: int, trained: int) -> tuple[F32, float]:
    """Inverse frequencies float32 [rotary_dim / 2], and the factor on cos and sin."""
    scaling = rope.scaling or RopeScaling("none")
    base = rope.base if scaling.base is None else scaling.base
    original = scaling.original_context or trained
    if base <= 1 or original <= 1 or rope.rotary_dim % 2:
        raise FormatError(
            f"rope: base {base:g}, original context {original}, width {rope.rotary_dim}: impossible numbers"
        )
    return _KINDS[scaling.kind](base, rope.rotary_dim, scaling, original, context)


def stretched_context(scaling: RopeScaling | None, trained: int) -> int:
    """The context that a model reaches with a scaling given by option."""
    if scaling is None or scaling.factor is None:
        return trained
    return int((scaling.original_context or trained) * scaling.factor)


def _powers(base: float, dim: int) -> F32:
    """base ** (2 i / dim), float32 [dim / 2]."""
    exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    return (float(base) ** exponents.astype(np.float64)).astype(np.float32)


def _inverse(base: float, dim: int) -> F32:
    return (np.float32(1) / _powers(base, dim)).astype(np.float32)


def _none(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    return _inverse(base, dim), 1.0


def _linear(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    return _inverse(base, dim) / np.float32(s.factor or 1.0), 1.0


def _ntk(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    """The base grows so that the slowest frequency is divided by factor and the fastest stays."""
    return _inverse(base * (s.factor or 1.0) ** (dim / max(dim - 2, 1)), dim), 1.0


def _dynamic(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    """NTK with a factor that follows the length; the length is the configured context, once and for all."""
    factor = s.factor or 1.0
    stretch = factor * max(context, original) / original - (factor - 1.0)
    return _inverse(base * stretch ** (dim / max(dim - 2, 1)), dim), 1.0


def _yarn(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    """Frequencies that turn often are kept, slow ones interpolated, with a ramp between (YaRN, section 3.2)."""
    factor = s.factor or 1.0
    low, high = (
        dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (s.beta_fast, s.beta_slow)
    )
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    span = high - low if high != low else 0.001  # no division by zero when the ramp is a step
    ramp = np.clip((np.arange(dim // 2, dtype=np.float32) - np.float32(low)) / np.float32(span), 0, 1)
    kept = np.float32(1) - ramp
    powers = _powers(base, dim)
    inverse = (np.float32(1) / (np.float32(factor) * powers)) * (np.float32(1) - kept) + (np.float32(1) / powers) * kept
    return inverse.astype(np.float32), _yarn_attention_factor(s, factor)


def _yarn_attention_factor(s: RopeScaling, factor: float) -> float:
    """0.1 ln(factor) + 1 (YaRN, section 3.4), or DeepSeek's ratio of two such terms."""
    if s.attention_factor is not None:
        return s.attention_factor

    def term(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    return term(s.mscale) / term(s.mscale_all_dim) if s.mscale and s.mscale_all_dim else term(1.0)


def _llama3(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    """Long waves are divided by factor, short ones kept, with a blend between."""
    if s.high_freq_factor <= s.low_freq_factor:
        raise ParameterError(
            f"rope scaling llama3: high_freq_factor {s.high_freq_factor:g} must exceed {s.low_freq_factor:g} (low)"
        )
    inverse, factor = _inverse(base, dim), np.float32(s.factor or 1.0)
    waves = np.float32(2 * math.pi) / inverse
    blend = (np.float32(original) / waves - np.float32(s.low_freq_factor)) / np.float32(
        s.high_freq_factor - s.low_freq_factor
    )
    blended = (np.float32(1) - blend) * inverse / factor + blend * inverse
    result = np.where(waves > original / s.low_freq_factor, inverse / factor, blended)
    return np.where(waves < original / s.high_freq_factor, inverse, result).astype(np.float32), 1.0


def _longrope(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    """Searched divisors, one set for contexts up to the original and one for longer ones."""
    factor = s.factor or 1.0
    attention_factor = s.attention_factor
    if attention_factor is None:
        attention_factor = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    divisors = _divisors(s.long_factors if context > original else s.short_factors, dim)
    return np.float32(1) / (divisors * _powers(base, dim)), attention_factor


def _factors(base: float, dim: int, s: RopeScaling, original: int, context: int) -> tuple[F32, float]:
    return _inverse(base, dim) / _divisors(s.factors, dim), 1.0


def _divisors(values: tuple[float, ...], dim: int) -> F32:
    if len(values) != dim // 2:
        raise FormatError(
            f"rope factors: expected {dim // 2} numbers (half the rotary width), the model has {len(values)}"
        )
    return np.array(values, dtype=np.float32)


_KINDS: dict[str, Callable[[float, int, RopeScaling, int, int], tuple[F32, float]]] = {
    "none": _none,
    "linear": _linear,
    "ntk": _ntk,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "factors": _factors,
}


def sinusoidal_table(context: int, hidden: int, offset: int) -> F32:
    """Sines, then cosines, of (position + offset) / 10000^(i / (hidden/2 - 1)): float32 [context, hidden].

    As tensor2tensor has them, not as Vaswani et al. 2017 wrote them (there sines and cosines alternate).
    """
    half = hidden // 2
    step = np.float32(math.log(10_000.0) / (half - 1))
    frequencies = np.exp((np.arange(half, dtype=np.float32) * -step).astype(np.float64)).astype(np.float32)
    angles = (np.arange(offset, offset + context, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    table = np.zeros((context, hidden), np.float32)  # an odd width ends in a zero
    table[:, :half], table[:, half : 2 * half] = np.sin(angles), np.cos(angles)
    return table


def alibi_slopes(heads: int) -> F32:
    """One slope per head, float32 [heads]: 2^(-8 i / n) for a power of two n, else the odd ones of 2n join those below.

    Source: Press et al. 2021 (arXiv 2108.12409) and its code.
    """
    whole = 2 ** math.floor(math.log2(heads))

    def geometric(count: int, step: int) -> F64:
        ratio = 2.0 ** -(2.0 ** -(math.log2(count) - 3))
        return np.array([ratio**i for i in range(1, count + 1, step)])

    slopes = np.concatenate([geometric(whole, 1), geometric(2 * whole, 2)[: heads - whole]])
    return slopes.astype(np.float32)
