"""XTC, mirostat 2 and top-n-sigma: stages and what the sampler makes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cutaway.errors import ParameterError
from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.randomness import uniform53
from cutaway.sampling.stages.find import truncations
from cutaway.sampling.stages.truncation import Candidates, Moment, candidates, mirostat, surprises, xtc
from cutaway.trace import MemoryRecorder

SHARES = [0.125, 0.5, 0.25, 0.0625, 0.0625]


def row_of(shares: list[float]) -> np.ndarray:
    return np.log(np.array(shares)).astype(np.float32)


def whole(shares: list[float] = SHARES) -> Candidates:
    row = row_of(shares)
    return candidates(row, float(row.max()), 1.0, len(row))


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [(0.6, [1, 2, 0, 3, 4]), (0.3, [1, 2, 0, 3, 4]), (0.2, [2, 0, 3, 4]), (0.1, [0, 3, 4]), (0.01, [4])],
)
def test_xtc_leaves_the_least_likely_of_the_likely(threshold: float, kept: list[int]) -> None:
    assert xtc(whole(), threshold).ids.tolist() == kept


def test_xtc_is_drawn_for_each_token_apart_from_the_token() -> None:
    params = SamplingParams(xtc_probability=0.5, xtc_threshold=0.2)
    sampler = Sampler(params, seed=11)
    picked = [sampler.choose(row_of([0.7, 0.3])).token for _ in range(400)]
    excluded = [uniform53(11, 0, position, use=1) / 2**53 < 0.5 for position in range(400)]
    assert all(token == 1 for token, out in zip(picked, excluded, strict=True) if out)
    assert {token for token, out in zip(picked, excluded, strict=True) if not out} == {0, 1}
    assert 150 < sum(excluded) < 250
    always = Sampler(SamplingParams(xtc_probability=1.0, xtc_threshold=0.0), seed=0)
    assert always.choose(row_of(SHARES)).token == 4


@pytest.mark.parametrize("temperature", [0.3, 0.5, 1.0, 2.0])
def test_xtc_looks_at_the_probabilities_before_the_temperature(temperature: float) -> None:
    """As llama.cpp, whose chain has it before the temperature: 0.61 and 0.23 are at least 0.2, so token 0 goes,
    whatever the temperature makes of them (0.86 and 0.12 at 0.5)."""
    row = np.array([3, 2, 1, 0.5, 0], np.float32)
    params = SamplingParams(temperature=temperature, xtc_threshold=0.2, xtc_probability=1.0)
    picked = {Sampler(params, seed=seed).choose(row).token for seed in range(60)}
    assert 0 not in picked and 1 in picked


def test_xtc_counts_the_mass_of_what_the_stages_before_it_have_kept() -> None:
    row = np.array([3, 2, 1, 0.5, 0], np.float32)
    params = SamplingParams(temperature=0.5, top_k=2, xtc_threshold=0.25, xtc_probability=1.0)
    assert {Sampler(params, seed=seed).choose(row).token for seed in range(40)} == {1}  # 0.27 of the two, 0.23 of all


def test_surprises_are_bits() -> None:
    assert surprises(whole()).tolist() == pytest.approx([1, 2, 3, 4, 4], abs=1e-6)


@pytest.mark.parametrize(("most", "kept"), [(0.1, 1), (1.5, 1), (2.5, 2), (3.5, 3), (9.0, 5), (-3.0, 1)])
def test_mirostat_keeps_what_does_not_surprise_too_much(most: float, kept: int) -> None:
    assert mirostat(whole(), most).ids.tolist() == [1, 2, 0, 3, 4][:kept]


def test_mirostat_learns_as_the_paper_says() -> None:
    tau, eta = 1.2, 0.3
    rng = np.random.default_rng(1)
    sampler = Sampler(SamplingParams(mirostat=2, mirostat_tau=tau, mirostat_eta=eta), seed=4)
    most = 2 * tau
    for position in range(60):
        row = rng.standard_normal(50).astype(np.float32) * 2
        shares = np.exp(row.astype(np.float64))
        shares /= shares.sum()
        order = np.argsort(-row, kind="stable")
        kept = [t for t in order if -math.log2(shares[t]) <= most] or [order[0]]
        total = shares[kept].sum()
        place = np.searchsorted(np.cumsum(shares[kept]) / total, uniform53(4, 0, position) / 2**53, side="right")
        token = kept[int(place)]
        assert sampler.choose(row).token == token
        most -= eta * (-math.log2(shares[token] / total) - tau)


def test_mirostat_holds_the_surprise() -> None:
    rng = np.random.default_rng(0)
    sampler = Sampler(SamplingParams(mirostat=2, mirostat_tau=3.0), seed=1, prompt=[])
    seen = []
    for _ in range(300):
        row = rng.standard_normal(2000).astype(np.float32) * 2
        token = sampler.choose(row).token
        shares = np.exp(row - row.max())
        seen.append(-math.log2(shares[token] / shares.sum()))
    assert float(np.mean(seen)) < 6  # unchecked it would be near 8


def test_top_n_sigma() -> None:
    row = np.array([0, 1, 2, 3, 10, -np.inf], np.float32)
    finite = row[:5].astype(np.float64)
    border = finite.max() - 1.0 * finite.std()
    sampler = Sampler(SamplingParams(top_n_sigma=1.0, temperature=50.0), seed=0)
    choice = sampler.choose(row, MemoryRecorder())
    stage = next(stage for stage in choice.stages if stage.name == "top_n_sigma")
    assert stage.kept == int((finite >= border).sum()) == 1
    two = Sampler(SamplingParams(top_n_sigma=2.5, temperature=50.0), seed=0)
    kept = {s.name: s.kept for s in two.choose(row, MemoryRecorder()).stages}
    assert kept["top_n_sigma"] == int((finite >= finite.max() - 2.5 * finite.std()).sum())
    assert Sampler(SamplingParams(top_n_sigma=-1.0), seed=0).choose(row).token in range(6)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
def test_looking_changes_nothing(temperature: float) -> None:
    params = SamplingParams(
        temperature=temperature, xtc_probability=0.5, xtc_threshold=0.02, mirostat=2, top_n_sigma=2.0, top_k=40
    )
    plain, seen = Sampler(params, seed=2), Sampler(params, seed=2)
    rng, recorder = np.random.default_rng(3), MemoryRecorder()
    for _ in range(30):
        row = rng.standard_normal(500).astype(np.float32) * 2
        assert plain.choose(row).token == seen.choose(row, recorder).token


def test_the_last_stages_in_order() -> None:
    names = [name for name, _ in truncations(SamplingParams(xtc_probability=1, mirostat=2, min_p=0.1), 9, Moment())]
    assert names == ["min_p", "xtc", "mirostat"]
    assert truncations(SamplingParams(xtc_probability=0.3), 9, Moment(coin=0.3)) == ()


def test_parameters() -> None:
    with pytest.raises(ParameterError, match="mirostat is 1; it must be 0"):
        SamplingParams(mirostat=1)
    for name in ("xtc_probability", "xtc_threshold"):
        with pytest.raises(ParameterError, match=name):
            SamplingParams(**{name: 1.5})
