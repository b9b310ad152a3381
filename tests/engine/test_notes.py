"""What the engine notes of each answer: tokens, times, chunks, pages, hashes, over the fake model."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cutaway.engine import Finished, Limits, Stream
from cutaway.engine.notes import UNITS, Notes
from cutaway.sampling import Choice, SamplingParams
from engine.driving import FULL, GREEDY, WINDOWS, core, drain
from engine.fake_model import FakeModel, layout


def notes_of(stream: Stream) -> list[Notes]:
    ends = [event for event in stream if isinstance(event, Finished)]
    found = [end.notes for end in ends if end.notes is not None]
    assert len(found) == len(ends)
    return found


def test_every_token_has_its_time_and_every_prompt_its_chunks() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL, limits=Limits(max_requests=4, max_tokens=6, max_rows=6))
    prompt = list(range(1, 18))
    stream = engine.submit(prompt, GREEDY)
    drain(engine, model)
    [notes] = notes_of(stream)
    assert len(notes.tokens) == len(notes.times) == 8
    assert all(one <= other for one, other in pairwise(notes.times))
    assert sum(tokens for _, tokens, _ in notes.chunks) == len(prompt) and len(notes.chunks) > 1
    assert [start for start, _, _ in notes.chunks] == sorted({start for start, _, _ in notes.chunks})
    assert notes.chunks[-1][2] <= notes.times[0]
    assert notes.pages > 0 and not notes.hashes and not notes.ranks


@pytest.mark.parametrize("kv", [FULL, WINDOWS])
def test_hashes_are_those_of_the_rows_whatever_else_runs(kv: object) -> None:
    params = SamplingParams(temperature=1.3, seed=3, max_tokens=8, ignore_eos=True)
    alone = FakeModel(FULL)
    engine = core(alone, FULL, hashing=True)
    stream = engine.submit([5, 6, 7], params)
    drain(engine, alone)
    [single] = notes_of(stream)
    assert len(single.hashes) == 8 and len(set(single.hashes)) > 4
    model = FakeModel(FULL)
    engine = core(model, FULL, hashing=True)
    streams = [engine.submit([5, 6, 7], params)] + [engine.submit([9, i], GREEDY) for i in range(1, 4)]
    drain(engine, model)
    [among] = notes_of(streams[0])
    assert among.hashes == single.hashes and among.tokens == single.tokens


def test_what_was_taken_away_is_read_again_and_noted() -> None:
    small = layout((None, 5), page_size=4)
    model = FakeModel(small)
    engine = core(model, small, context=20)
    streams = [engine.submit([i, 2, 3, 4, 5], GREEDY.replace(max_tokens=12)) for i in (1, 6)]
    drain(engine, model)
    assert engine.preemptions
    found = [notes_of(stream)[0] for stream in streams]
    assert any(sum(tokens for _, tokens, _ in notes.chunks) > 5 for notes in found)
    assert all(len(notes.tokens) == 12 for notes in found)


def test_ranks_and_probabilities_are_kept_where_the_sampler_had_them() -> None:
    notes = Notes(0.0)
    for choice in (Choice(5), Choice(6, rank=2, logprob=-1.0, after=0.25), Choice(7)):
        notes.token(choice, processed=False)
    assert list(notes.ranks) == [0, 2] and list(notes.probabilities) == [-1.0, 0.25]
    processed = Notes(0.0)
    processed.token(Choice(6, rank=1, logprob=0.0), processed=True)
    assert list(processed.probabilities) == [1.0] and list(processed.ranks) == [0]
    assert processed.times[0] <= 2**32 - 1 and UNITS == 100_000


def test_without_ids_nothing_tells_the_text() -> None:
    notes = Notes(0.0, hashing=True)
    notes.token(Choice(5), processed=False)
    notes.slides.append((1, (8, 9)))
    notes.pages = 3
    bare = notes.without_ids()
    assert not bare.tokens and bare.slides == [(1, ())] and bare.times == notes.times and bare.pages == 3
