"""One recorded request among others that are not recorded."""

from __future__ import annotations

from typing import Any

import pytest

import cutaway.engine.draw
from cutaway.cache import RequestPages
from cutaway.sampling import SamplingParams
from cutaway.trace import MemoryRecorder, PrefixRecord, StepRecord, TokenRecord
from engine.driving import FULL, WINDOWS, answers, core, drain
from engine.fake_model import FakeModel

PARAMS = SamplingParams(temperature=0.9, top_p=0.9, seed=5, max_tokens=8, ignore_eos=True)
PROMPTS = {"one": [1, 2, 3], "two": [4, 5], "three": [6, 1, 2, 2]}


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each step that were drawn together."""
    counts: list[int] = []
    together = cutaway.engine.draw.draw_together

    def counted(rows: Any, samplers: Any) -> Any:
        counts.append(len(samplers))
        return together(rows, samplers)

    monkeypatch.setattr(cutaway.engine.draw, "draw_together", counted)
    return counts


def tokens(recorder: MemoryRecorder | None) -> dict[str, tuple[int, ...]]:
    model = FakeModel(FULL)
    engine = core(model, FULL, **({} if recorder is None else {"recorder": recorder}))
    streams = {name: engine.submit(prompt, PARAMS, name=name) for name, prompt in PROMPTS.items()}
    drain(engine, model)
    return {name: answers(stream)[0].tokens for name, stream in streams.items()}


def test_unwatched_requests_stay_on_the_fast_path_and_all_have_the_same_tokens(fast: list[int]) -> None:
    unseen = tokens(None)
    assert sum(fast) == 3 * 8
    fast.clear()
    recorder = MemoryRecorder(only={"two"})
    assert tokens(recorder) == unseen
    assert sum(fast) == 2 * 8, "whom nobody looks at is drawn with the others"
    seen = [record for record in recorder.records if isinstance(record, TokenRecord)]
    assert [record.id for record in seen] == list(unseen["two"])
    assert {record.request for record in seen} == {"two"} and all(record.stages for record in seen)
    assert [r.request for r in recorder.records if isinstance(r, PrefixRecord)] == ["two"]
    steps = [record for record in recorder.records if isinstance(record, StepRecord)]
    assert len(steps) == 8 and set(steps[0].requests) == set(PROMPTS)


def test_who_looks_at_all_sees_all_and_may_stop(fast: list[int]) -> None:
    recorder = MemoryRecorder()
    unseen = tokens(recorder)
    assert sum(fast) == 0
    assert {r.request for r in recorder.records if isinstance(r, TokenRecord)} == set(PROMPTS)
    count = len(recorder.records)
    recorder.close()
    assert tokens(recorder) == unseen and len(recorder.records) == count
    assert sum(fast) == 3 * 8


def test_a_request_without_a_name_has_its_number() -> None:
    model, recorder = FakeModel(FULL), MemoryRecorder()
    engine = core(model, FULL, recorder=recorder)
    stream = engine.submit([1, 2], PARAMS)
    drain(engine, model)
    assert {r.request for r in recorder.records if isinstance(r, TokenRecord)} == {str(stream.requests[0].id)}


def test_a_snapshot_of_the_pages_is_a_copy_and_adds_up() -> None:
    model = FakeModel(WINDOWS)
    engine = core(model, WINDOWS)
    stream = engine.submit([1 + i % 5 for i in range(14)], PARAMS)
    for _ in range(4):
        engine.step()
    shot = engine.pages.snapshot()
    assert [group.window for group in shot.groups] == [None, 6, 1, None] and shot.page_size == 3
    for group, pool in zip(shot.groups, engine.pages.pools, strict=True):
        assert group.free + group.held + group.cached == group.total
        assert (group.free, group.held, group.cached) == (pool.free, pool.held, pool.cached)
    (held,) = shot.requests.values()
    assert isinstance(held, RequestPages) and held.length == held.written == 17 and held.published == 5
    assert len(held.tables[0]) == 6 and -1 not in held.tables[0]
    assert held.tables[1][:3] == (-1, -1, -1)
    drain(engine, model)
    assert not engine.pages.snapshot().requests and held.length == 17
    assert answers(stream)
