"""N-gram speculation through the engine, on a real model: the same answers, in fewer steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutaway import Engine, Result, SamplingParams

pytestmark = pytest.mark.models
LIST = "apple, banana, cherry, orange, lemon, grape, peach, melon, plum, mango"
COPYING = f"Fruits: {LIST}.\nFruits: {LIST}.\nFruits: apple,"
SCHEMA = {"type": "array", "items": {"enum": ["apple", "plum"]}, "minItems": 5, "maxItems": 9}
GREEDY = SamplingParams(temperature=0.0, seed=1, max_tokens=40, logprobs=3, ignore_eos=True)


@pytest.fixture(scope="module")
def engines(smollm2_path: Path) -> Iterator[tuple[Engine, Engine]]:
    """Without, and with."""
    with (
        Engine.load(smollm2_path, context=256, contexts=1) as plain,
        Engine.load(smollm2_path, context=256, contexts=1, speculate="ngram") as quick,
    ):
        yield plain, quick


def told(result: Result) -> object:
    """All of a result but its times."""
    answers = [(a.text, a.token_ids, a.stop, a.logprobs) for a in result.answers]
    return answers, result.usage.completion_tokens, result.seed, result.warnings


def test_copying_takes_fewer_steps_and_the_bits_are_the_same(engines: tuple[Engine, Engine]) -> None:
    plain, quick = engines
    expected = plain.generate(COPYING, GREEDY)[0]
    steps = quick.status().steps
    found = quick.generate(COPYING, GREEDY)[0]
    assert told(found) == told(expected)  # the log-probabilities of three tokens at each place, bit for bit
    assert found.timings.accepted > 0
    assert quick.status().steps - steps == 40 - found.timings.accepted
    assert quick.status().steps - steps < 25


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.9, seed=4, max_tokens=40, logprobs=1, n=2),
        SamplingParams(temperature=0.7, seed=5, max_tokens=40, repetition_penalty=1.1, stop="peach"),
        SamplingParams(temperature=0.0, seed=6, max_tokens=120, json_schema=SCHEMA),
    ],
    ids=["choices", "penalty and stop", "schema"],
)
def test_sampled_stopped_and_constrained_answers_are_the_same(
    engines: tuple[Engine, Engine], params: SamplingParams
) -> None:
    plain, quick = engines
    prompts = [COPYING, [{"role": "user", "content": f"Repeat these words: {LIST}"}]]
    expected, found = (engine.generate(prompts, params) for engine in (plain, quick))
    assert [told(result) for result in found] == [told(result) for result in expected]
    if params.json_schema is not None:
        assert found[0].timings.accepted > 0
        assert set(json.loads(found[0].text)) <= {"apple", "plum"}
