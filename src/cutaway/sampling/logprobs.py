"""Log-probabilities of the model's own distribution, before any stage: log_softmax of the raw logits, in float64.

The normaliser is an exact sum of odds rounded to 2^-44 of the best token's; it is within 1e-8 of log_softmax.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutaway.sampling.native_rows import Row, best_token, checked, count_before, log_total, measure_row, order


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """logprob: of the token. rank: its place, from 1. top: the best tokens with their log-probabilities, best first."""

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


def token_logprobs(row: Row, token: int, top: int) -> TokenLogprobs:
    """The log-probability of `token` and of the `top` best tokens in `row` (float32 [vocab], the raw logits).

    For prompt logprobs, the row at position i belongs to the prompt's token i + 1. Raises EngineError if the row
    contains NaN or +inf, or only -inf.
    """
    row = np.ascontiguousarray(row, np.float32)
    best = float(row[checked(best_token(row), "(for log-probabilities)")])
    normaliser = best + log_total(measure_row(row, best, 1.0)[0])
    alternatives = tuple((int(id), float(row[id]) - normaliser) for id in order(row, top))
    return TokenLogprobs(float(row[token]) - normaliser, int(count_before(row, int(token))) + 1, alternatives)
