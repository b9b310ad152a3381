"""Perplexity: what is counted, its error, and the figures against the engine's own log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway import Engine, SamplingParams
from cutaway.errors import ParameterError
from cutaway.xray.needle import needles
from cutaway.xray.perplexity import BLOCK, perplexity, standard_error, surprise, windows

TEXT = "The quick brown fox jumps over the lazy dog. 它跑得很快，没有人追得上。 " * 12


@given(st.integers(1, 400), st.integers(2, 60), st.integers(1, 60), st.integers(0, 1))
def test_every_token_is_counted_once_with_enough_before_it(count: int, window: int, stride: int, skip: int) -> None:
    if stride > window - skip:
        with pytest.raises(ParameterError):
            list(windows(count, window, stride, skip))
        return
    found = list(windows(count, window, stride, skip))
    assert [n for w in found for n in range(w.first, w.end)] == list(range(skip, count))
    for number, each in enumerate(found):
        assert 0 <= each.start <= each.first and each.end - each.start <= window
        assert each.first - each.start >= (skip if number == 0 else min(window - stride, each.first))
        assert each.first > each.start or (skip == 0 and (number == 0 or stride == window))


def test_a_surprise_is_the_negative_logarithm_of_a_probability() -> None:
    row = np.array([1.0, 3.0, -2.0, 3e4], np.float32)
    assert surprise(row, 3) == (0.0, True)
    assert surprise(row[:3], 0) == (pytest.approx(-math.log(math.e / (math.e + math.e**3 + math.e**-2))), False)


def test_the_error_knows_that_neighbours_depend_on_each_other() -> None:
    draw = np.random.default_rng(1)
    apart = draw.normal(size=BLOCK * 100)
    assert standard_error(apart) == pytest.approx(1 / math.sqrt(len(apart)), rel=0.3)
    alike = np.repeat(draw.normal(size=100 * BLOCK // 32), 32)
    error = standard_error(alike)
    assert error is not None and error > 3 / math.sqrt(len(alike))
    assert standard_error(apart[: BLOCK * 7]) is None


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[Engine]:
    with Engine.load(smollm2_path, context=512, contexts=1) as loaded:
        yield loaded


@pytest.mark.models
def test_the_figures_are_those_of_the_engines_own_log_probabilities(engine: Engine) -> None:
    ids = engine.tokenizer.encode(TEXT, add_special=False)
    assert 128 < len(ids) <= 500
    (result,) = engine.generate(ids, SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1))
    assert result.prompt_logprobs is not None
    known = [-one.logprob for one in result.prompt_logprobs if one is not None]
    done = perplexity(engine, TEXT)
    assert done.tokens == len(known) == len(ids) - 1
    assert done.nats == pytest.approx(sum(known) / len(known), rel=1e-5)
    assert done.perplexity == pytest.approx(math.exp(done.nats)) and done.top > 0.5
    text = engine.tokenizer.decode(ids[1:])
    assert done.bits_per_byte == pytest.approx(sum(known) / math.log(2) / len(text.encode()), rel=1e-5)
    assert done.bits_per_character == pytest.approx(sum(known) / math.log(2) / len(text), rel=1e-5)
    assert sum(r.tokens for r in done.positions) == done.tokens and done.positions[0].low == 0
    assert done.positions[0].perplexity > done.positions[-1].perplexity, "the text repeats itself"


@pytest.mark.models
def test_short_windows_know_less(engine: Engine) -> None:
    reports: list[tuple[int, int]] = []
    whole = perplexity(engine, TEXT)
    short = perplexity(engine, TEXT, window=16, stride=8, progress=lambda done, count, _: reports.append((done, count)))
    assert short.tokens == whole.tokens and short.perplexity > 1.5 * whole.perplexity
    assert reports[-1] == (whole.tokens, whole.tokens) and len(reports) > 10
    assert max(r.high for r in short.positions) <= 16
    for wrong in ({"window": 1}, {"window": 513}, {"window": 16, "stride": 16}, {"stride": 0}):
        with pytest.raises(ParameterError):
            perplexity(engine, TEXT, **wrong)
    with pytest.raises(ParameterError, match="no token"):
        perplexity(engine, "a")


@pytest.mark.models
def test_a_model_with_a_first_token_counts_every_token(gemma_path: Path) -> None:
    with Engine.load(gemma_path, context=256, contexts=1) as engine:
        text = "Water boils at one hundred degrees."
        done = perplexity(engine, text)
        assert done.tokens == len(engine.tokenizer.encode(text, add_special=False))
        assert done.positions[0].low == 0 and done.perplexity < 200


@pytest.mark.models
def test_a_hidden_sentence_is_found_and_not_guessed(engine: Engine) -> None:
    found = list(needles(engine, TEXT, lengths=(0.25, 0.5), depths=(0.0, 1.0)))
    assert [one.depth for one in found] == [None, 0.0, 1.0] * 2 and all(one.tokens <= 512 for one in found)
    blank = [one for one in found if one.depth is None]
    hidden = [one for one in found if one.depth is not None]
    assert not any(one.found for one in blank) and sum(one.found for one in hidden) >= 3
    assert max(one.nats for one in hidden) < min(one.nats for one in blank)
    with pytest.raises(ParameterError, match="too short"):
        list(needles(engine, TEXT, lengths=(0.05,)))
