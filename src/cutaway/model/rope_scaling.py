"""How rotary positions are stretched beyond the context that a model was trained on, as a value and as an option.

Sources: linear, Chen et al. 2023 (arXiv 2306.15595); NTK-aware and dynamic NTK, bloc97 and emozilla 2023; YaRN, Peng et
al. 2023 (arXiv 2309.00071); Llama 3, Grattafiori et al. 2024 (arXiv 2407.21783); LongRoPE, Ding et al. 2024 (arXiv
2402.13753).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from cutaway.errors import ParameterError

ScalingKind = Literal["none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope", "factors"]

GRAMMAR = """\
KIND[:FACTOR][,NAME=VALUE...]
  KIND   none | linear | ntk | dynamic | yarn | llama3
  FACTOR how many times longer the context becomes, a number from 1 to 10000 (none takes no factor)
  NAME   original=TOKENS  the context that the model was trained on (default: what the model file says)
         base=NUMBER      another rotary base
         attention_factor=NUMBER, beta_fast=NUMBER, beta_slow=NUMBER, truncate=BOOL    (yarn)
         low_freq_factor=NUMBER, high_freq_factor=NUMBER                               (llama3)
Examples: yarn:4   linear:2,base=1e6   llama3:8,original=8192"""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """One scaling. Fields that a kind does not use stay at their defaults.

    factor: how many times the context grows; None where it follows from other numbers (dynamic: context / original).
    original_context: tokens that the model was trained on before scaling; None: the spec's trained context.
    base: overrides the model's rotary base. attention_factor: multiplies cos and sin; None: the kind's own rule.
    beta_fast, beta_slow, mscale, mscale_all_dim, truncate: YaRN. low_freq_factor, high_freq_factor: Llama 3.
    short_factors, long_factors: LongRoPE, one divisor per inverse frequency, [rotary_dim / 2].
    factors: divisors that a GGUF file carries in `rope_freqs.weight` (Llama 3's, worked out), [rotary_dim / 2].
    """

    kind: ScalingKind
    factor: float | None = None
    original_context: int | None = None
    base: float | None = None
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    mscale: float | None = None
    mscale_all_dim: float | None = None
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()

    def depends_on_context(self) -> bool:
        """Whether the tables differ with the configured context: such a context belongs into a cache key."""
        return self.kind in ("dynamic", "longrope")


# Which names an option may set for each kind; what a model file says is not restricted by this.
_OPTIONS: dict[str, frozenset[str]] = {
    "none": frozenset({"base"}),
    "linear": frozenset({"base", "original"}),
    "ntk": frozenset({"base", "original"}),
    "dynamic": frozenset({"base", "original"}),
    "yarn": frozenset({"base", "original", "attention_factor", "beta_fast", "beta_slow", "truncate"}),
    "llama3": frozenset({"base", "original", "low_freq_factor", "high_freq_factor"}),
}
_FIELD = {"original": "original_context"}
MAX_FACTOR = 10_000.0


def parse_rope_scaling(text: str) -> RopeScaling:
    """Parse the option `--rope-scaling`; GRAMMAR documents what it takes. Raises ParameterError."""
    head, *pairs = [part.strip() for part in text.split(",")]
    kind, colon, factor = (part.strip() for part in head.partition(":"))
    if kind not in _OPTIONS:
        known = ", ".join(_OPTIONS)
        hint = "its factors come with the model file" if kind in get_args(ScalingKind) else ""
        raise ParameterError(f"rope_scaling: unknown kind {kind!r}, expected one of {known}", hint=hint)
    scaling = RopeScaling(kind)  # type: ignore[arg-type]
    if kind == "none":
        if colon:
            raise ParameterError(f"rope_scaling: none takes no factor, got {factor!r}")
    else:
        if not colon:
            raise ParameterError(f"rope_scaling: {kind} needs a factor, as in {kind}:4")
        scaling = replace(scaling, factor=_number("factor", factor, 1.0, MAX_FACTOR))
    for pair in pairs:
        scaling = _with_option(scaling, pair)
    return scaling


def _with_option(scaling: RopeScaling, pair: str) -> RopeScaling:
    name, equals, value = (part.strip() for part in pair.partition("="))
    allowed = _OPTIONS[scaling.kind]
    if not equals or name not in allowed:
        expected = ", ".join(sorted(allowed))
        raise ParameterError(
            f"rope_scaling: {pair!r} is not an option of {scaling.kind}, expected NAME=VALUE of {expected}"
        )
    changed: dict[str, Any] = {_FIELD.get(name, name): _READERS[name](name, value)}
    return replace(scaling, **changed)


def _number(name: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ParameterError(f"rope_scaling: {name} must be a number from {low:g} to {high:g}, got {text!r}")
    return value


def _tokens(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= 2**31):
        raise ParameterError(f"rope_scaling: {name} must be a whole number from 1 to {2**31}, got {text!r}")
    return int(text)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ParameterError(f"rope_scaling: {name} must be true or false, got {text!r}")
    return text.lower() == "true"


def _between(low: float, high: float) -> Callable[[str, str], float]:
    return lambda name, text: _number(name, text, low, high)


_READERS: dict[str, Callable[[str, str], object]] = {
    "original": _tokens,
    "base": _between(1.0, 1e12),
    "attention_factor": _between(1e-3, 1e3),
    "beta_fast": _between(1e-3, 1e6),
    "beta_slow": _between(1e-3, 1e6),
    "truncate": _boolean,
    "low_freq_factor": _between(1e-3, 1e6),
    "high_freq_factor": _between(1e-3, 1e6),
}
