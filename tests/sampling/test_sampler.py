from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling import Choice, Sampler, SamplingParams
from cutaway.trace import MemoryRecorder


def row(vocab: int = 100, seed: int = 0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(vocab) * 3).astype(np.float32)


def choose(logits: Any, **options: Any) -> Choice:
    return Sampler(SamplingParams(**options), seed=1).choose(np.asarray(logits, np.float32))


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-300, 1e-6, 9e-6, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("scale", [1, 1e4, 1e30])
def test_tiny_temperatures_are_greedy(temperature: float, scale: float) -> None:
    logits = np.array([1.0, 3.0, 3.0, -2.0, 2.9], np.float32) * np.float32(scale)
    for seed in range(20):
        token = Sampler(SamplingParams(temperature=temperature), seed=seed).choose(logits).token
        assert token == 1 if temperature < 1e-5 else token in (1, 2)


def test_ties_go_to_the_lower_id() -> None:
    assert choose([0.0, -0.0, 0.0], temperature=0).token == 0
    assert choose([-1.0, -0.0, 0.0], temperature=0).token == 1
    assert choose([-1.0, -0.0, 0.0], top_k=1).token == 1


@pytest.mark.parametrize("top_k", [0, -1, 1000])
def test_top_k_off(top_k: int) -> None:
    tokens = {Sampler(SamplingParams(top_k=top_k, temperature=50), seed=s).choose(row()).token for s in range(400)}
    assert len(tokens) > 80


def test_frequencies_follow_the_distribution() -> None:
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    logits = np.log(shares).astype(np.float32)
    sampler = Sampler(SamplingParams(), seed=11)
    counts = Counter(sampler.choose(logits).token for _ in range(20_000))
    assert [counts[i] / 20_000 for i in range(4)] == pytest.approx(list(shares), abs=0.012)


def test_same_seed_same_tokens_and_choices_differ() -> None:
    def run(seed: int, choice: int) -> tuple[int, ...]:
        sampler = Sampler(SamplingParams(), seed=seed, choice=choice)
        for i in range(12):
            sampler.choose(row(seed=i))
        return sampler.generated

    assert run(5, 0) == run(5, 0)
    assert len({run(5, 0), run(5, 1), run(5, 2), run(6, 0)}) == 4


def test_the_same_tokens_on_every_machine() -> None:
    """A golden run: integers in, integers out."""
    params = SamplingParams(temperature=0.8, top_p=0.95, repetition_penalty=1.1, frequency_penalty=0.2)
    sampler = Sampler(params, seed=2024, prompt=[3, 5, 8])
    for i in range(16):
        sampler.choose((np.arange(1000, dtype=np.int64) * 7919 * (i + 1) % 1009).astype(np.float32) / np.float32(64))
    assert list(sampler.generated) == GOLDEN


GOLDEN = [363, 465, 365, 803, 153, 931, 865, 995, 340, 831, 759, 898, 939, 879, 306, 33]


@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, r"\+inf")], ids=["nan", "infinity"])
@pytest.mark.parametrize(
    "options",
    [{"temperature": 0}, {}, {"top_k": 3}, {"typical_p": 0.5}, {"allowed_tokens": [1]}, {"banned_tokens": [7]}],
)
def test_a_row_that_is_not_finite_ends_in_an_error(value: float, words: str, options: dict[str, Any]) -> None:
    logits = row()
    logits[7] = value
    for recorder in (None, MemoryRecorder()):
        sampler = Sampler(SamplingParams(**options), seed=0)
        sampler.accept(4)
        with pytest.raises(EngineError, match=f"logits hold {words} at token 1 of the output") as error:
            sampler.choose(logits, *([recorder] if recorder else []))
        assert error.value.code == "logits_invalid"
        assert sampler.generated == (4,)


def test_minus_infinity_is_allowed_but_not_everywhere() -> None:
    assert choose([-np.inf, 1.0, -np.inf]).token == 1
    with pytest.raises(EngineError, match="no token is left"):
        choose([-np.inf, -np.inf])
    with pytest.raises(EngineError, match="no token is left"):
        choose([1.0, 2.0], banned_tokens=[0, 1])
    with pytest.raises(EngineError, match="no token is left"):
        choose([1.0, -np.inf], allowed_tokens=[1], temperature=0)


def test_an_id_beyond_the_vocabulary_is_refused_at_the_first_row() -> None:
    with pytest.raises(ParameterError, match="logit_bias names token 999999"):
        choose(row(), logit_bias={999_999: 5})


def test_bias_forces_and_bans() -> None:
    assert choose(row(), logit_bias={42: 100}, temperature=0).token == 42
    best = int(row().argmax())
    assert choose(row(), logit_bias={best: -100}, temperature=0).token != best


def test_presence_penalty_leaves_the_first_token_alone() -> None:
    logits = row()
    best = int(logits.argmax())
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=2, frequency_penalty=2), seed=0, prompt=[best] * 4)
    assert sampler.choose(logits).token == best


def test_min_tokens_holds_the_end_back() -> None:
    logits = row()
    best = int(logits.argmax())
    sampler = Sampler(SamplingParams(temperature=0, min_tokens=2), seed=0, end_ids=frozenset({best, 10**6}))
    tokens = [sampler.choose(logits).token for _ in range(3)]
    assert best not in tokens[:2]
    assert tokens[2] == best


def test_logits_are_left_as_they_are() -> None:
    logits = row()
    logits.flags.writeable = False
    choose(logits, repetition_penalty=1.5, logit_bias={1: 3}, allowed_tokens=[1, 2, 3])


def test_logprobs_are_told_when_asked_for() -> None:
    assert choose(row()) == Choice(choose(row()).token)
    told = choose(row(), logprobs=0)
    assert told.top == ()
    assert told.logprob is not None and told.logprob < 0
    assert len(choose(row(), logprobs=7).top) == 7


def test_raw_logprobs_do_not_see_the_stages() -> None:
    logits = row()
    exact = logits.astype(np.float64) - math.log(np.exp(logits.astype(np.float64)).sum())
    told = choose(logits, logprobs=3, temperature=0.1, banned_tokens=[int(logits.argmax())], top_k=2)
    assert told.logprob == pytest.approx(exact[told.token], abs=1e-7)
    assert told.rank is not None and told.rank >= 2
    assert told.top[0][0] == int(logits.argmax())


@pytest.mark.parametrize("options", [{}, {"top_k": 4}, {"top_p": 0.6, "temperature": 0.7}])
def test_processed_logprobs_are_of_what_was_drawn_from(options: dict[str, Any]) -> None:
    told = choose(row(), logprobs=100, logprobs_mode="processed", **options)
    assert sum(math.exp(logprob) for _, logprob in told.top) == pytest.approx(1, abs=1e-9)
    assert told.rank is not None
    assert told.top[told.rank - 1] == (told.token, told.logprob)
    assert told.token == choose(row(), **options).token
    greedy = choose(row(), logprobs=5, logprobs_mode="processed", temperature=0)
    assert greedy.top == ((greedy.token, 0.0),)
