from __future__ import annotations

import math

import numpy as np
import pytest

from cutaway.errors import EngineError
from cutaway.sampling import token_logprobs


def test_against_log_softmax_in_float64() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.01, 1, 10):
        row = (rng.standard_normal(20_000) * scale).astype(np.float32)
        exact = row.astype(np.float64) - row.max() - math.log(np.exp(row.astype(np.float64) - row.max()).sum())
        order = np.lexsort((np.arange(len(row)), -row))
        for place in (0, 1, 700, 19_999):
            told = token_logprobs(row, int(order[place]), 5)
            assert told.logprob == pytest.approx(exact[order[place]], abs=2e-8)
            assert told.rank == place + 1
            assert [id for id, _ in told.top] == order[:5].tolist()
            assert [logprob for _, logprob in told.top] == pytest.approx(list(exact[order[:5]]), abs=2e-8)


def test_ties_banned_tokens_and_all_alternatives() -> None:
    row = np.array([1.0, 2.0, 2.0, -np.inf], np.float32)
    assert token_logprobs(row, 2, 0).rank == 2
    assert token_logprobs(row, 3, 4).logprob == -math.inf
    assert [id for id, _ in token_logprobs(row, 3, 4).top] == [1, 2, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value: float) -> None:
    with pytest.raises(EngineError, match="log-probabilities"):
        token_logprobs(np.array([1.0, value], np.float32), 0, 1)
