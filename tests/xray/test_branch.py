"""An answer continued otherwise: only what was changed makes a difference, and the unchanged way gives it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cutaway.assemble import Engine
from cutaway.errors import ParameterError, RecordError
from cutaway.sampling import SamplingParams
from cutaway.xray.branch import branch, branch_json, changed_params
from cutaway.xray.known_answer import KnownAnswer

pytestmark = pytest.mark.models
PARAMS = SamplingParams(
    temperature=0.9, top_p=0.9, top_k=40, repetition_penalty=1.1, seed=7, max_tokens=24, ignore_eos=True
)


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[Engine]:
    with Engine.load(smollm2_path, context=256, pull=False) as loaded:
        yield loaded


def answered(engine: Engine, params: SamplingParams = PARAMS) -> KnownAnswer:
    [result] = engine.generate("The three colours of the flag are", params)
    return KnownAnswer(result.prompt_token_ids, result.token_ids, params, result.seed, 0, result.stop)


@pytest.fixture(scope="module")
def known(engine: Engine) -> KnownAnswer:
    return answered(engine)


@pytest.mark.parametrize("at", [0, 1, 11, 23])
def test_its_own_token_gives_the_answer_again(engine: Engine, known: KnownAnswer, at: int) -> None:
    done = branch(engine, known, at, token=known.answer[at])
    assert done.branch.tokens == known.answer[at:] == done.answer.tokens and done.branch.parts is None
    assert done.sound and done.check == done.checked == 24 - at and done.branch.ended == "length"


def test_another_token_goes_another_way_with_the_same_seed(engine: Engine, known: KnownAnswer) -> None:
    done = branch(engine, known, 4, token=260)
    again = branch(engine, known, 4, token=260)
    assert done.branch.tokens[0] == 260 and done.branch == again.branch and done.branch.parts == 0
    assert done.sound and done.forced == 260 and done.changes == ()


def test_a_changed_parameter_is_what_a_request_with_it_would_have_given(engine: Engine, known: KnownAnswer) -> None:
    """From the beginning on there is a way to know: ask for it."""
    for values in ({"temperature": 0.0}, {"temperature": 1.6}, {"top_p": 0.4}, {"max_tokens": 5}):
        done = branch(engine, known, 0, values=values, length=40)
        truth = answered(engine, PARAMS.replace(**values))
        assert done.branch.tokens == truth.answer
        assert done.sound and [change.name for change in done.changes] == list(values)


def test_without_a_stage_is_as_if_it_had_not_been_asked_for(engine: Engine, known: KnownAnswer) -> None:
    done = branch(engine, known, 0, without=["top_p", "repetition_penalty"], length=40)
    assert done.branch.tokens == answered(engine, PARAMS.replace(top_p=1.0, repetition_penalty=1.0)).answer
    assert {change.name: change.after for change in done.changes} == {"top_p": 1.0, "repetition_penalty": 1.0}
    assert branch_json(done)["sound"] is True


def test_a_record_that_was_changed_is_found_out_by_the_check(engine: Engine, known: KnownAnswer) -> None:
    wrong = replace(known, answer=(*known.answer[:9], known.answer[9] + 1, *known.answer[10:]))
    done = branch(engine, wrong, 3, token=260)
    assert not done.sound and done.check == 6
    assert not branch(engine, replace(known, seed=8), 0, token=260, length=24).sound


def test_what_cannot_be_done_is_said(engine: Engine, known: KnownAnswer) -> None:
    for at in (-1, 24, 10**6):
        with pytest.raises(ParameterError, match="does not exist"):
            branch(engine, known, at, token=5)
    with pytest.raises(ParameterError, match="nothing is changed"):
        branch(engine, known, 0)
    with pytest.raises(ParameterError, match="did not run"):
        branch(engine, known, 0, without=["dry"])
    with pytest.raises(ParameterError, match="no stage"):
        branch(engine, known, 0, without=["magic"])
    with pytest.raises(ParameterError, match="length is 0"):
        branch(engine, known, 0, token=5, length=0)
    for values in ({"n": 2}, {"seed": 1}, {"temperature": -1}, {"temprature": 1}, {"top_k": "x"}):
        with pytest.raises(ParameterError):
            changed_params(PARAMS, (), values)
    with pytest.raises(RecordError, match="this model has"):
        branch(engine, replace(known, answer=(*known.answer[:-1], 2**31 - 1)), 0, token=5)
    with pytest.raises(RecordError, match="stages of its own"):
        branch(engine, replace(known, own_stages=1), 0, token=5)
