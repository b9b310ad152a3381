"""Speculation changes how soon an answer is there, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.engine import CostModel, Event, Finished, Limits, status_of
from cutaway.engine.speculation import LONGEST, MOST, Speculator, continued, match
from cutaway.ops.protocol import F32
from cutaway.sampling import SamplingParams
from cutaway.trace import MemoryRecorder, StepRecord, TokenRecord
from engine.driving import FULL, GREEDY, WINDOWS, Worth, core, drain
from engine.fake_model import FakeModel, layout

TWO = SamplingParams(temperature=1.0, seed=1, max_tokens=20, allowed_tokens=[1, 2], ignore_eos=True)


def told(params: SamplingParams, prompt: Sequence[int], kv: Any, **options: Any) -> list[Event]:
    """The events of one prompt without times."""
    model = FakeModel(kv)
    engine = core(model, kv, **options)
    stream = engine.submit(list(prompt), params)
    drain(engine, model)
    return [timeless(event) for event in stream]


def timeless(event: Event) -> Event:
    if not isinstance(event, Finished):
        return event
    told = None if event.error is None else str(event.error)
    return replace(event, timings=None, error=told)  # type: ignore[arg-type]


def by_choice(events: Sequence[Event]) -> list[list[Event]]:
    return [[e for e in events if e.choice == choice] for choice in range(1 + max(e.choice for e in events))]


# --- drafts -----------------------------------------------------------------------------------------------------------
def test_the_longest_and_then_the_latest_match_is_continued() -> None:
    free = Speculator()
    assert free.draft([1, 2, 3, 9, 9, 2, 3, 8, 8, 1, 2, 3], 8, 100, 0)[:3] == [9, 9, 2]  # three tokens before two
    assert Speculator().draft([2, 3, 9, 2, 3, 8, 2, 3], 2, 100, 0) == [8, 2]
    assert Speculator().draft([1, 2, 3, 4], 8, 100, 0) == []
    assert Speculator().draft([5], 8, 100, 0) == []
    assert Speculator().draft([5, 5, 5], 8, 100, 0) == [5] * MOST  # goes on repeating beyond the end


def test_a_draft_keeps_to_what_is_left_of_the_answer() -> None:
    for most in (-1, 0, 3):
        assert len(Speculator().draft([1, 2] * 9, most, 100, 0)) == max(0, most)


@given(st.lists(st.integers(0, 2), min_size=3, max_size=60), st.integers(1, 8))
def test_a_draft_is_what_followed_an_equal_run(tokens: list[int], steps: int) -> None:
    """Drafts are made again after every few tokens, as in the engine."""
    speculator = Speculator()
    for end in range(1, len(tokens) + 1, steps):
        known = tokens[:end]
        draft = speculator.draft(known, MOST, 1, 0)
        places = [at for at in range(2, end) if known[at - 2 : at] == known[end - 2 :]]
        assert bool(draft) == bool(places)
        if draft:
            longest = max(match(known, at) for at in places[-16:])
            assert any(match(known, at) == longest <= LONGEST and continued(known, at, MOST) == draft for at in places)
        speculator.learn([], 0)


def test_drafting_stops_where_it_does_not_pay_and_begins_again_where_it_does() -> None:
    speculator = Speculator()
    tokens = [1, 2, 3, 4] * 4
    assert speculator.draft(tokens, 8, gain=10, cost=1)
    for _ in range(60):
        speculator.draft(tokens, 8, 10, 1)
        speculator.learn([99], 0)
    assert not speculator.draft(tokens, 8, gain=10, cost=1)
    assert speculator.draft(tokens, 8, gain=10**9, cost=1)
    for _ in range(60):
        speculator.learn([1], 0)  # what would have been drafted
        speculator.draft(tokens, 8, 10, 1)
    assert len(speculator.draft(tokens, 8, gain=10, cost=1)) == MOST


def test_dear_tokens_are_not_drafted() -> None:
    assert not Speculator().draft([1, 2] * 9, 8, gain=10, cost=9)
    assert 0 < len(Speculator().draft([1, 2] * 9, 8, gain=10, cost=4)) < MOST


# --- answers ----------------------------------------------------------------------------------------------------------
def stage_that_fails_at(length: int) -> Any:
    def stage(logits: F32, prompt: Sequence[int], generated: Sequence[int]) -> None:
        if len(generated) == length:
            raise ZeroDivisionError("my stage")

    return stage


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 2.0]),
        "max_tokens": st.integers(0, 20),
        "allowed_tokens": st.sampled_from([[0, 1, 2], [3], [1, 2, 3, 4]]),
        "ignore_eos": st.just(False),
        "stop": st.sampled_from(["ab", "bbb", "c"]),
        "stop_regex": st.sampled_from(["a.a$", "b+a"]),
        "stop_token_ids": st.just([2]),
        "n": st.just(3),
        "logprobs": st.integers(0, 3),
        "logprobs_mode": st.just("processed"),
        "prompt_logprobs": st.just(1),
        "repetition_penalty": st.just(1.5),
        "frequency_penalty": st.just(0.7),
        "no_repeat_ngram": st.just(3),
        "mirostat": st.just(2),
        "xtc_probability": st.just(0.5),
        "typical_p": st.just(0.9),
        "temperature_end": st.just(0.3),
    },
)


@settings(max_examples=150, deadline=None)
@given(
    CHANGES, st.lists(st.integers(1, 3), min_size=1, max_size=12), st.sampled_from([FULL, WINDOWS]), st.integers(0, 5),
    st.none() | st.integers(0, 12),
)
def test_every_event_is_the_same_without(
    changes: dict[str, Any], prompt: list[int], kv: Any, at_least: int, fails: int | None
) -> None:
    """Stops, limits, penalties, log-probabilities, errors in the midst of an answer: all at the same token."""
    changes |= {"min_tokens": min(at_least, changes.get("max_tokens", 20)), "temperature_length": 5}
    changes |= {"stages": [] if fails is None else [stage_that_fails_at(fails)]}
    params = TWO.replace(**changes)
    without, with_it = (
        told(params, prompt, kv, cost=Worth(), limits=Limits(4, 16, 16), speculate=s) for s in (False, True)
    )
    assert by_choice(without) == by_choice(with_it)


def test_fewer_steps_and_the_counts_are_told() -> None:
    params = TWO.replace(allowed_tokens=[7], max_tokens=30)
    model, recorder = FakeModel(FULL), MemoryRecorder()
    engine = core(model, FULL, cost=Worth(), limits=Limits(4, 16, 16), speculate=True, recorder=recorder)
    stream = engine.submit([7, 7, 7], params)
    drain(engine, model)
    assert engine.steps == 1 + 4  # nine tokens a step after the first
    end = [event for event in stream if isinstance(event, Finished)][-1]
    assert (end.timings.drafted, end.timings.accepted) == (25, 25)
    now = status_of(engine)
    assert (now.drafted, now.accepted) == (25, 25)
    steps = [record for record in recorder.records if isinstance(record, StepRecord)]
    counts = [(record.tokens, record.rows, record.drafted, record.accepted) for record in steps]
    assert counts == [(3, 1, 0, 0), *[(9, 9, 8, 8)] * 3, (2, 2, 1, 1)]
    tokens = [record for record in recorder.records if isinstance(record, TokenRecord)]
    assert [record.position for record in tokens] == list(range(30))


def test_it_is_off_by_default() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL, cost=Worth())
    stream = engine.submit([7, 7, 7], TWO.replace(allowed_tokens=[7]))
    drain(engine, model)
    assert engine.steps == 20
    assert next(e for e in stream if isinstance(e, Finished)).timings.drafted == 0


@pytest.mark.parametrize("default", [False, True])
def test_a_request_says_for_itself(default: bool) -> None:
    steps = {}
    for said in ("ngram", "off", None):
        model = FakeModel(FULL)
        engine = core(model, FULL, cost=Worth(), limits=Limits(4, 16, 16), speculate=default)
        stream = engine.submit([7, 7, 7], TWO.replace(allowed_tokens=[7], speculate=said))
        drain(engine, model)
        steps[said] = engine.steps
        assert (engine.drafted > 0) == (said == "ngram" or (said is None and default))
        assert len([event for event in stream if not isinstance(event, Finished)]) == 20
    assert steps["ngram"] < steps["off"] == 20
    assert steps[None] == steps["ngram" if default else "off"]


def test_what_never_pays_is_switched_off() -> None:
    class Dear(CostModel):
        def observe(self, tokens: int, pair_count: int, microseconds: float) -> None:
            pass

    model = FakeModel(FULL)
    engine = core(model, FULL, cost=Dear(100.0, 1_000.0, 0.0), speculate=True)
    engine.submit([1, 2, 1, 2, 1], TWO)
    drain(engine, model)
    assert (engine.steps, engine.drafted) == (20, 0)


@pytest.mark.parametrize("pages", [6, 7, 9])
def test_drafts_take_no_page_that_others_need(pages: int) -> None:
    """Two requests that just fit: neither is preempted for the other's drafts."""
    kv = layout((None, pages))
    model = FakeModel(kv)
    engine = core(model, kv, cost=Worth(), limits=Limits(4, 32, 32), speculate=True, sharing=False)
    for prompt in ([7] * 5, [8] * 5):
        engine.submit(prompt, GREEDY.replace(allowed_tokens=prompt[:1], max_tokens=7))
    drain(engine, model)
    assert engine.preemptions == 0 and engine.drafted > 0
