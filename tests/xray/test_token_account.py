"""What is computed afterwards is what somebody who looked live would have seen: every figure of every stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cutaway import Engine, SamplingParams
from cutaway.engine import Finished, TokenChosen, fitted_text
from cutaway.errors import CutawayError
from cutaway.trace import MemoryRecorder, TokenRecord
from cutaway.xray.known_answer import KnownAnswer, Passage
from cutaway.xray.token_account import TokenAccount, account

pytestmark = pytest.mark.models

CHAT = [{"role": "user", "content": "Name three colours and three numbers, then start again."}]
SCHEMA = {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
    "required": ["name", "age"], "additionalProperties": False,
}  # fmt: skip
SAMPLED = SamplingParams(temperature=0.9, seed=11, max_tokens=24)
CASES = {
    "plain": SAMPLED,
    "greedy": SAMPLED.replace(temperature=0.0),
    "truncations": SAMPLED.replace(top_k=40, top_p=0.9, min_p=0.02, typical_p=0.95),
    "penalties": SAMPLED.replace(
        repetition_penalty=1.2, presence_penalty=0.4, frequency_penalty=0.3, no_repeat_ngram=3, logit_bias={28: 2.0},
        bad_words=["red"], min_tokens=20,
    ),
    "dry": SAMPLED.replace(temperature=0.3, dry_multiplier=0.8, max_tokens=48),
    "mirostat": SAMPLED.replace(mirostat=2, mirostat_tau=3.0),
    "xtc": SAMPLED.replace(xtc_probability=0.5, xtc_threshold=0.05),
    "moving": SAMPLED.replace(temperature_end=0.2, temperature_length=10, dynamic_temperature_range=0.3),
    "sigma": SAMPLED.replace(top_n_sigma=1.5),
    "grammar": SAMPLED.replace(json_schema=SCHEMA, max_tokens=40),
    "regex": SAMPLED.replace(regex="[a-z]{3} (one|two) [0-9]{4}"),
    "several": SAMPLED.replace(n=3, top_p=0.95, repetition_penalty=1.1),
    "speculated": SAMPLED.replace(temperature=0.2, speculate="ngram", max_tokens=40),
    "processed": SAMPLED.replace(top_p=0.8, logprobs=2, logprobs_mode="processed"),
}  # fmt: skip


@pytest.fixture(scope="module")
def watched(smollm2_path: Path) -> Iterator[tuple[Engine, MemoryRecorder]]:
    recorder = MemoryRecorder()
    with Engine.load(smollm2_path, context=192, contexts=2, recorder=recorder) as engine:
        yield engine, recorder


def told(engine: Engine, known: KnownAnswer) -> list[TokenAccount]:
    return list(account(engine, known, best=3))


def same(found: Sequence[TokenAccount], seen: Sequence[TokenRecord]) -> None:
    assert [one.token for one in found] == [one.id for one in seen]
    for one, live in zip(found, seen, strict=True):
        assert one.redrawn == one.token
        assert (one.position, one.bytes) == (live.position, live.bytes.hex())
        assert (one.probability, one.drawn, one.rank) == (live.before, live.after, live.rank)
        assert [s.name for s in one.stages] == [s.name for s in live.stages]
        for mine, theirs in zip(one.stages, live.stages, strict=True):
            assert (mine.kept, mine.entropy, mine.probability, mine.rank) == (
                theirs.kept, theirs.entropy, theirs.probability, theirs.rank,
            )  # fmt: skip
            assert mine.kl == (None if theirs.kl == float("inf") else theirs.kl)


@pytest.mark.parametrize("name", CASES)
def test_every_figure_is_the_one_that_was_seen_live(watched: tuple[Engine, MemoryRecorder], name: str) -> None:
    engine, recorder = watched
    recorder.records.clear()
    params = CASES[name]
    prompt = tuple(engine.token_ids(CHAT))
    (result,) = engine.generate([list(prompt)], params)
    live = [record for record in recorder.records if isinstance(record, TokenRecord)]
    for choice, answer in enumerate(result.answers):
        known = KnownAnswer(prompt, answer.token_ids, params, result.seed, choice, answer.stop)
        found = told(engine, known)
        same(found, [record for record in live if record.choice == choice])
        check(found, answer.token_ids, params)
    assert not engine._core.readings.due


def check(found: Sequence[TokenAccount], answer: Sequence[int], params: SamplingParams) -> None:
    """What no recorder sees."""
    for one in found:
        first = one.stages[0]
        assert (first.name, first.kl, first.kl_model) == ("model", 0.0, 0.0)
        assert one.margin is not None and (one.margin >= 0) == (one.rank == 1)
        best = min((a for a in one.alternatives), key=lambda a: a.rank)
        assert best.rank == (2 if one.rank == 1 else 1)
        assert one.probability + sum(a.probability for a in one.alternatives) <= 1 + 1e-9
        for a in one.alternatives:
            assert (a.cut_by is None) == (a.drawn > 0) or a.drawn < 1e-12
        assert one.end is not None and one.end.rank >= 1
        assert one.forced == (params.constraint is not None and one.stages[1].kept == 1)
        assert one.stages[1].kl_model == one.stages[1].kl
    if params.constraint is not None:
        assert any(one.forced for one in found) and not all(one.forced for one in found)


def test_after_a_slide_the_rows_are_those_behind_the_shorter_prompt(watched: tuple[Engine, MemoryRecorder]) -> None:
    engine, recorder = watched
    recorder.records.clear()
    prompt = engine.token_ids("The quick brown fox jumps over the lazy dog, and then it rests. " * 9)
    params = SAMPLED.replace(max_tokens=100, ignore_eos=True, repetition_penalty=1.1)
    fit = fitted_text(prompt, engine.context, params.max_tokens)
    slides: list[tuple[int, tuple[int, ...]]] = []
    stream = engine.submit(fit.tokens, params, shorten=lambda most: note(fit.shorten(most)))
    request = stream.requests[0]

    def note(made: tuple[list[int], str]) -> tuple[list[int], str]:
        slides.append((request.outputs, tuple(made[0])))
        return made

    events = list(stream)
    answer = tuple(event.token for event in events if isinstance(event, TokenChosen))
    assert isinstance(events[-1], Finished) and slides and len(answer) == 100
    known = KnownAnswer(tuple(fit.tokens), answer, params, events[-1].seed, slides=tuple(slides))
    same(told(engine, known), [record for record in recorder.records if isinstance(record, TokenRecord)])


def test_an_answer_that_is_another_ones_is_found_out(watched: tuple[Engine, MemoryRecorder]) -> None:
    engine, _ = watched
    prompt = tuple(engine.token_ids(CHAT))
    (result,) = engine.generate([list(prompt)], SAMPLED)
    other = KnownAnswer(prompt, result.token_ids, SAMPLED, result.seed + 1)
    assert any(one.redrawn != one.token for one in told(engine, other))
    changed = [*result.token_ids]
    changed[5] = (changed[5] + 1) % 1000
    found = told(engine, KnownAnswer(prompt, tuple(changed), SAMPLED, result.seed))
    assert found[5].redrawn == result.token_ids[5] != found[5].token
    assert all(one.redrawn == one.token for one in found[:5])


def test_a_token_that_the_grammar_forbids_is_an_error_and_the_engine_goes_on(
    watched: tuple[Engine, MemoryRecorder],
) -> None:
    engine, _ = watched
    prompt = tuple(engine.token_ids(CHAT))
    with pytest.raises(CutawayError):
        told(engine, KnownAnswer(prompt, (28, 28, 28), SAMPLED.replace(regex="[a-z]{3}"), 1))
    assert len(told(engine, KnownAnswer(prompt, (28,), SAMPLED, 1))) == 1


def parts(slides: Any, answer: int) -> list[Passage]:
    return list(KnownAnswer((1, 2, 3), tuple(range(answer)), SAMPLED, 0, slides=slides).passages())


def test_passages() -> None:
    assert parts((), 4) == [Passage((1, 2, 3), 0, 4)] and parts((), 0) == []
    assert parts(((2, (3,)), (3, (9,))), 4) == [
        Passage((1, 2, 3), 0, 2), Passage((3,), 2, 3), Passage((9,), 3, 4),
    ]  # fmt: skip
    assert parts(((0, (3,)),), 2) == [Passage((3,), 0, 2)]
    assert parts(((4, (3,)),), 4) == [Passage((1, 2, 3), 0, 4)]
