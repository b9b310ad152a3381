"""The fused path and the stages one by one: the same token, and the same probabilities bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.stages.find import truncations
from cutaway.sampling.stages.truncation import candidates
from cutaway.trace import MemoryRecorder


def rows(seed: int, vocab: int, count: int) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    made = (rng.standard_normal((count, vocab)) * rng.choice([0.05, 1, 5])).astype(np.float32)
    return list(np.round(made * 4) / 4 if seed % 2 else made)


options = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 1e-6, 1e-4, 0.3, 1.0, 2.5]),
        "top_k": st.sampled_from([-1, 0, 1, 7, 300, 10**6]),
        "top_p": st.sampled_from([0.0, 0.5, 0.95, 1.0]),
        "min_p": st.sampled_from([0.0, 0.02, 0.5]),
        "typical_p": st.sampled_from([1.0, 1.0, 0.3, 0.95]),
        "repetition_penalty": st.sampled_from([1.0, 1.3]),
        "presence_penalty": st.sampled_from([0.0, 1.5]),
        "frequency_penalty": st.sampled_from([0.0, -0.5]),
        "no_repeat_ngram": st.sampled_from([0, 2]),
        "dynamic_temperature_range": st.sampled_from([0.0, 0.4]),
        "banned_tokens": st.sampled_from([(), (0, 3, 5)]),
        "logit_bias": st.sampled_from([{}, {4: 2.5, 9: -100}]),
    }
)


@settings(max_examples=120, deadline=None)
@given(options=options, seed=st.integers(-(2**63), 2**64 - 1), vocab=st.sampled_from([11, 64, 500, 3000]))
def test_looking_changes_nothing(options: dict[str, float], seed: int, vocab: int) -> None:
    params = SamplingParams(**options)  # type: ignore[arg-type]
    plain, seen = (Sampler(params, seed=seed, choice=1, prompt=[1, 2, 1]) for _ in range(2))
    recorder = MemoryRecorder()
    for row in rows(seed % 1000, vocab, 6):
        before = row.copy()
        assert plain.choose(row).token == seen.choose(row, recorder).token
        assert (row == before).all()
    assert plain.generated == seen.generated


@pytest.mark.parametrize("top_p", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("top_k", [1, 40, 700])
def test_selected_candidates_equal_the_whole_vocabulary(top_k: int, top_p: float) -> None:
    params = SamplingParams(top_k=top_k, top_p=top_p, min_p=0.001, typical_p=0.8)
    for row in rows(3, 5000, 3) + rows(4, 5000, 3):
        few = candidates(row, float(row.max()), 1 / 0.8, top_k)
        all_of_them = candidates(row, float(row.max()), 1 / 0.8, len(row))
        for _, stage in truncations(params, len(row)):
            few, all_of_them = stage(few), stage(all_of_them)
            assert few.ids.tolist() == all_of_them.ids.tolist()
            assert few.odds.tolist() == all_of_them.odds.tolist()
            assert few.total == all_of_them.total


def test_full_vocabulary() -> None:
    params = SamplingParams(temperature=0.9, top_p=0.97, repetition_penalty=1.1)
    plain, seen = (Sampler(params, seed=5, prompt=range(50)) for _ in range(2))
    recorder = MemoryRecorder()
    for row in rows(2, 151_936, 4):
        assert plain.choose(row).token == seen.choose(row, recorder).token
