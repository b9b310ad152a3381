"""Several rows drawn in one call give what they give one by one."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.errors import EngineError
from cutaway.native import _native
from cutaway.ops.rows import HostRows
from cutaway.sampling import Sampler, SamplingParams, draw_together

VOCAB = 3000
PARAMS = [
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.7, top_k=40, top_p=0.9),
    SamplingParams(),
    SamplingParams(min_p=0.05),
    SamplingParams(top_k=1),
    SamplingParams(temperature=1.3, top_p=0.99, logprobs=2),
]


def rows(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(count).normal(0, 3, (count, VOCAB)).astype(np.float32)


@pytest.mark.parametrize("threads", [None, 1, 2, 3])
def test_the_same_tokens_as_one_by_one(threads: int | None) -> None:
    team = None if threads is None else _native.Team(threads)
    together, alone = ([Sampler(params, seed=i) for i, params in enumerate(PARAMS * 3)] for _ in range(2))
    for _ in range(5):
        logits = rows(len(alone))
        drawn = draw_together(HostRows(logits, team), dict(enumerate(together)))
        assert set(drawn) == set(range(len(alone)))
        for row, sampler in enumerate(alone):
            assert together[row].choose(logits[row], drawn=drawn[row]) == sampler.choose(logits[row])


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature_end=0.5, temperature_length=9),
        SamplingParams(dynamic_temperature_range=0.3),
        SamplingParams(banned_tokens=[1]),
        SamplingParams(repetition_penalty=1.1),
        SamplingParams(typical_p=0.5),
        SamplingParams(mirostat=2),
        SamplingParams(logprobs=1, logprobs_mode="processed"),
    ],
)
def test_what_wants_more_than_a_draw_is_left_out(params: SamplingParams) -> None:
    plain = SamplingParams(seed=1)
    samplers = {0: Sampler(plain, seed=1), 1: Sampler(params, seed=1), 2: Sampler(plain, seed=1)}
    assert set(draw_together(HostRows(rows(3)), samplers)) == {0, 2}


def test_one_row_is_not_worth_a_call() -> None:
    assert draw_together(HostRows(rows(2)), {1: Sampler(SamplingParams(), seed=1)}) == {}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_fails_fails_alone(value: float) -> None:
    logits = rows(4)
    logits[1, 5] = logits[3, 7] = value
    samplers = {row: Sampler(SamplingParams(temperature=row % 3), seed=row) for row in range(4)}
    drawn = draw_together(HostRows(logits, _native.Team(2)), samplers)
    for row, sampler in samplers.items():
        if row in {1, 3}:
            with pytest.raises(EngineError, match=r"logits hold .* at token 0 of the output"):
                sampler.choose(logits[row], drawn=drawn[row])
            assert sampler.generated == ()
        else:
            alone = Sampler(sampler.params, seed=row).choose(logits[row])
            assert sampler.choose(logits[row], drawn=drawn[row]) == alone
