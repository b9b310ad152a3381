"""Remedies of a loop: tried from the end of its first round, one parameter at a time, with the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import cutaway.xray.remedies as room
from cutaway.assemble import Engine
from cutaway.errors import ParameterError
from cutaway.sampling import SamplingParams
from cutaway.xray.branch import branch
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.remedies import TRIED, remedies, remedies_json

pytestmark = pytest.mark.models
PARAMS = SamplingParams(temperature=0.4, top_p=0.9, seed=7, max_tokens=400, ignore_eos=True)


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[Engine]:
    with Engine.load(smollm2_path, context=512, contexts=1, pull=False) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def looped(engine: Engine) -> KnownAnswer:
    """Eight tokens, then 30 rounds of nine."""
    encode = engine.tokenizer.encode
    head, rounds = encode("Once upon a time there was a"), encode(" wheel that went round and round again and")
    answer = (*head, *rounds * 30)
    return KnownAnswer(tuple(encode("Tell me a story.")), answer, PARAMS, 7, 0)


def test_each_is_a_branch_with_one_change(engine: Engine, looped: KnownAnswer) -> None:
    done = remedies(engine, looped, length=12)
    assert done.at == done.loop.start + done.loop.period and looped.answer[done.at :][: done.loop.period] == (
        looped.answer[done.loop.start :][: done.loop.period]
    )
    assert [one.name for one in done.tried] == [*TRIED, "temperature"]
    for one in done.tried:
        assert one.name is not None
        assert one.text == branch(engine, looped, done.at, values={one.name: one.value}, length=12).branch.text
        assert one.tokens == 12 and one.kl is not None and one.kl > 0 and one.loops_at is None
    kl = {one.name: one.kl or 0 for one in done.tried}
    assert done.own.kl is not None and kl["repetition_penalty"] > done.own.kl, "a penalty leads away from the model"
    told = remedies_json(done)
    assert told["record"] == "remedies" and told["own"]["name"] is None and len(told["tried"]) == 4


def test_the_alarm_rises_where_it_rose(
    engine: Engine, looped: KnownAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(room, "TRIED", {})
    greedy = replace(looped, params=PARAMS.replace(temperature=0))
    done = remedies(engine, greedy, length=300)
    assert done.tried == () and done.own.loops_at == done.loop.seen - done.at
    assert done.own.tokens == len(looped.answer) - done.at and done.own.ended is None


def test_what_is_stronger_already_is_not_tried(engine: Engine, looped: KnownAnswer) -> None:
    strong = replace(looped, params=PARAMS.replace(repetition_penalty=1.3, no_repeat_ngram=6))
    assert [one.name for one in remedies(engine, strong, length=2).tried] == ["dry_multiplier", "temperature"]


def test_an_answer_without_a_loop(engine: Engine, looped: KnownAnswer) -> None:
    with pytest.raises(ParameterError, match="no loop"):
        remedies(engine, replace(looped, answer=looped.answer[:40]))
    with pytest.raises(ParameterError, match="length"):
        remedies(engine, looped, length=0)
