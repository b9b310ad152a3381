from __future__ import annotations

import math

import numpy as np
import pytest

from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.stages.ledger import View, divergence
from cutaway.trace import MemoryRecorder

NAT = math.log(2)


def row_of(shares: list[float]) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.array(shares)).astype(np.float32)


def test_stage_records() -> None:
    params = SamplingParams(banned_tokens=[4], top_k=3, top_p=0.7)
    sampler = Sampler(params, seed=0)
    choice = sampler.choose(row_of([0.25, 0.125, 0.0625, 0.0625, 0.5]), MemoryRecorder())
    model, banned, temperature, top_k, top_p = choice.stages
    assert [stage.name for stage in choice.stages] == ["model", "banned_tokens", "temperature", "top_k", "top_p"]
    assert [stage.kept for stage in choice.stages] == [5, 4, 4, 3, 2]
    assert model.entropy == pytest.approx(1.875 * NAT, abs=1e-6)
    assert banned.entropy == pytest.approx(1.75 * NAT, abs=1e-6)
    assert banned.kl == pytest.approx(NAT, abs=1e-6)
    assert temperature.kl == 0
    assert top_k.kl == pytest.approx(math.log(8 / 7), abs=1e-6)
    assert top_p.kl == pytest.approx(math.log(7 / 6), abs=1e-6)
    assert choice.before == model.probability
    assert choice.after == top_p.probability
    assert choice.rank == model.rank
    assert top_p.rank == {0: 1, 1: 2}[choice.token]


def test_greedy_leaves_one() -> None:
    choice = Sampler(SamplingParams(temperature=0), seed=0).choose(row_of([0.25, 0.75]), MemoryRecorder())
    assert [(stage.name, stage.kept, stage.probability) for stage in choice.stages][1:] == [("greedy", 1, 1.0)]
    assert choice.stages[-1].entropy == 0
    assert choice.stages[-1].kl == pytest.approx(math.log(4 / 3), abs=1e-6)


def test_divergence() -> None:
    old, new = [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]
    views = [View("", row_of(shares), float(row_of(shares).max()), 1.0) for shares in (new, old)]
    assert divergence(*views) == pytest.approx(0.25 * NAT, abs=1e-6)
    banned = View("", row_of([0.5, 0.5, 0.0]), float(row_of([0.5]).max()), 1.0)
    assert divergence(views[0], banned) == math.inf
