"""An answer in a loop is drawn at half its temperature, and only then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.repetition import LoopDetector
from cutaway.sampling.stages.cool import COOLING
from cutaway.trace import MemoryRecorder

PARAMS = SamplingParams(temperature=1.0, on_repetition="cool")
LOOP = [7, *([1, 2, 3] * 80)]


def sampler(params: SamplingParams, generated: Sequence[int], seed: int = 5) -> Sampler:
    made = Sampler(params, seed=seed, prompt=[1, 2, 3] * 100)
    for token in generated:
        made.accept(token)
    return made


def row(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(50).astype(np.float32)


def in_loop(tokens: Sequence[int]) -> bool:
    loops = LoopDetector()
    return [loops.push(token) for token in tokens][-1]


@pytest.mark.parametrize("seed", range(20))
def test_in_a_loop_the_token_is_that_of_half_the_temperature(seed: int) -> None:
    assert in_loop(LOOP)
    cooled = sampler(PARAMS, LOOP, seed).choose(row()).token
    assert cooled == sampler(SamplingParams(temperature=COOLING), LOOP, seed).choose(row()).token


@pytest.mark.parametrize("generated", [[], [1, 2, 3] * 20, list(range(40)) * 6, [*LOOP, 9]])
@pytest.mark.parametrize("seed", range(5))
def test_outside_a_loop_nothing_changes(generated: list[int], seed: int) -> None:
    """The prompt's loops do not count, nor does one that was left."""
    cooled = sampler(PARAMS, generated, seed).choose(row()).token
    assert cooled == sampler(SamplingParams(temperature=1.0), generated, seed).choose(row()).token


def test_the_stage_is_recorded_with_what_it_did() -> None:
    before = sampler(PARAMS, LOOP[:60]).choose(row(), MemoryRecorder()).stages
    inside = sampler(PARAMS, LOOP).choose(row(), MemoryRecorder()).stages
    assert [stage.name for stage in before] == [stage.name for stage in inside] == ["model", "cool", "temperature"]
    assert before[1].kl == 0 and inside[1].kl > 0 and inside[1].entropy < inside[0].entropy


def test_the_tokens_are_the_same_however_they_came() -> None:
    """Chosen one by one, or accepted at once as a replay does: the state depends on the tokens alone."""
    drawn, loop = sampler(PARAMS, LOOP), sampler(PARAMS, LOOP[:-30])
    for at in range(30):
        loop.choose(np.where(np.arange(50) == LOOP[at - 30], 50, row(at)).astype(np.float32))
    assert loop.generated == drawn.generated
    assert [drawn.choose(row(at)).token for at in range(20)] == [loop.choose(row(at)).token for at in range(20)]


def test_the_best_token_stays_the_best() -> None:
    greedy = SamplingParams(temperature=0, on_repetition="cool")
    assert sampler(greedy, LOOP).choose(row()).token == int(row().argmax())
    original = row()
    sampler(PARAMS, LOOP).choose(original)
    assert (original == row()).all()
