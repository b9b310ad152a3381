"""The temperature of one token: fixed, by position, or by entropy.

By position: a straight line from `temperature` to `temperature_end` over `temperature_length` tokens. By entropy: T =
low + (high - low) * (H / ln n) ^ exponent, where low and high are temperature -/+ range (low at least 0), and H is the
entropy at temperature 1 over the n tokens that are not banned. This is llama.cpp's `dynatemp`, which is applied after
truncation there.
"""

from __future__ import annotations

from cutaway.sampling.native_rows import Row, exp_nonpositive, log_positive, log_total, measure_row
from cutaway.sampling.params import SamplingParams


def temperature_at(params: SamplingParams, position: int, row: Row, top: float) -> float:
    """The temperature for the token at `position` of the output. row: float32 [vocab] after the edits; top: its best
    logit."""
    temperature = float(params.temperature)
    if params.temperature_end is not None:
        share = min(1.0, position / params.temperature_length)
        temperature += (float(params.temperature_end) - temperature) * share
    if not params.dynamic_temperature_range:
        return temperature
    low = max(0.0, temperature - params.dynamic_temperature_range)
    high = temperature + params.dynamic_temperature_range
    return low + (high - low) * _flatness(row, top, float(params.dynamic_temperature_exponent))


def entropy_of(total: int, spread: int) -> float:
    """Entropy in nats from the sums that `measure_row` gives."""
    return max(0.0, log_total(total) + spread / total)


def _flatness(row: Row, top: float, exponent: float) -> float:
    total, spread, finite = measure_row(row, top, 1.0)
    if exponent == 0:
        return 1.0
    share = min(1.0, entropy_of(total, spread) / float(log_positive(float(finite)))) if finite > 1 else 0.0
    return float(exp_nonpositive(exponent * float(log_positive(share)))) if share > 1e-300 else 0.0
