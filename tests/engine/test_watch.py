"""Looking at an engine that works: made by its own thread, at most twice a second, and nothing when nobody looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cutaway.engine import EngineCore, Finished, Look, Stream, Watch
from cutaway.engine.watch import at_boundary
from cutaway.errors import EngineError
from cutaway.ops.protocol import KVLayout, Step
from cutaway.ops.rows import HostRows
from engine.driving import FULL, GREEDY, WINDOWS, core, drain, last
from engine.fake_model import FakeModel, layout

LONG = GREEDY.replace(max_tokens=30)


class Paced:
    """A model whose steps wait for leave. entered: counts those that have begun."""

    def __init__(self, kv: KVLayout) -> None:
        self.model = FakeModel(kv)
        self.leave = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)

    def __call__(self, step: Step) -> HostRows:
        self.entered.release()
        self.leave.acquire()
        return self.model(step)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.engine.watch.APART", 0.0)


def started(model: Callable[[Step], Any], kv: KVLayout = FULL) -> EngineCore:
    return core(model, kv).start()


@pytest.fixture
def engine() -> Iterator[EngineCore]:
    made = started(FakeModel(FULL))
    yield made
    made.close()


def test_an_idle_engine_shows_itself_and_its_cached_pages(engine: EngineCore) -> None:
    stream = engine.submit([1, 2, 3, 4, 5], GREEDY)
    list(stream)
    look = Watch(engine).look()
    assert not look.requests and look.steps == engine.steps and look.snapshot.page_size == 4
    (group,), (pages,) = look.snapshot.groups, look.snapshot.maps
    assert (group.held, group.cached) == (0, 3) and sum(pages.references) == 0
    assert sorted(pages.published.position) == [0, 4, 8] and sorted(pages.published.tokens) == [4, 4, 4]
    assert [page for page, _ in pages.victims][-1] == pages.published.page[pages.published.position.index(0)]
    assert all(look.moment - 30 < moment <= look.moment for _, moment in pages.victims)


def test_a_look_waits_for_the_step_that_runs_and_shows_requests_at_its_end() -> None:
    model = Paced(FULL)
    engine = started(model)
    engine.submit([1, 2, 3], LONG, name="one", key=("a", None))
    model.leave.release()
    for _ in range(2):
        assert model.entered.acquire(timeout=10)
    looks: list[Look] = []
    thread = threading.Thread(target=lambda: looks.append(Watch(engine).look()))
    thread.start()
    time.sleep(0.05)
    assert not looks, "a step runs"
    model.leave.release()
    thread.join(10)
    (seen,) = looks[0].requests
    assert (seen.name, seen.key, seen.running, seen.prompt) == ("one", ("a", None), True, 3)
    assert seen.computed == seen.prompt + seen.answer - 1 and seen.age > 0
    tables = looks[0].snapshot.requests[seen.id].tables[0]
    assert all(looks[0].snapshot.maps[0].references[page] == 1 for page in tables)
    model.leave.release(100)
    engine.close()


def test_steps_are_kept_only_while_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    watch = Watch(engine)

    def look() -> Look:
        found: list[Look] = []
        thread = threading.Thread(target=lambda: found.append(watch.look()))
        thread.start()
        while not found:
            engine._receive()
        thread.join()
        return found[0]

    streams = [engine.submit([1, 2, 3], LONG), engine.submit([4, 5], LONG)]
    engine.step()
    assert engine.observe_step is None
    assert not look().log and engine.observe_step is not None
    for _ in range(3):
        engine.step()
    log = look().log
    assert [step.number for step in log] == [2, 3, 4]
    for step in log:
        assert [chunk.id for chunk in step.chunks] == [s.requests[0].id for s in streams] and step.tokens == 2
        assert list(step.milliseconds) == ["plan", "batch", "forward", "sample"] and step.predicted > 0
        assert sum(step.pages[0]) == 40 and step.waiting == 0
    monkeypatch.setattr("cutaway.engine.watch.WATCHED", -1.0)
    look()
    engine.step()
    assert engine.observe_step is None, "nobody looks any more"
    monkeypatch.setattr("cutaway.engine.watch.WATCHED", 15.0)
    assert not look().log, "steps of another watch, with others missing between, are not shown"
    drain(engine, model)


def test_at_most_so_many_looks_a_second(engine: EngineCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.engine.watch.APART", 0.2)
    watch, found = Watch(engine), []
    until = time.monotonic() + 1.0
    threads = [threading.Thread(target=_looks, args=(watch, found, until)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) > 100 and 2 <= len({look.moment for look in found}) <= 6


def _looks(watch: Watch, found: list[Look], until: float) -> None:
    while time.monotonic() < until:
        found.append(watch.look())


def test_looking_changes_no_token() -> None:
    def told(look: bool) -> list[Any]:
        engine = started(FakeModel(WINDOWS), WINDOWS)
        watch = Watch(engine)
        streams = [engine.submit([1 + i % 5 for i in range(n)], LONG) for n in (3, 9, 14)]
        if look:
            for _ in range(20):
                watch.look()
        tokens = [[e.token for e in stream if not isinstance(e, Finished)] for stream in streams]
        engine.close()
        return tokens

    assert told(look=True) == told(look=False)


def test_an_engine_that_has_ended_or_does_not_come_back_says_so() -> None:
    model = Paced(FULL)
    engine = started(model)
    stream = engine.submit([1, 2], LONG)
    assert model.entered.acquire(timeout=10)
    with pytest.raises(EngineError, match=r"longer than 0\.05 s"):
        Watch(engine).look(timeout=0.05)
    waiting = at_boundary(engine, lambda: 1)
    closing = threading.Thread(target=engine.close)
    closing.start()
    model.leave.release(100)
    closing.join(10)
    assert waiting.exception(10) is None or isinstance(waiting.exception(10), EngineError)
    with pytest.raises(EngineError, match="closed"):
        Watch(engine).look()
    assert last(stream).stop.kind == "cancelled"


def test_what_a_call_raises_is_the_callers(engine: EngineCore) -> None:
    def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        at_boundary(engine, fails).result(10)
    assert last(engine.submit([1], GREEDY)).stop.kind == "length"


def test_calls_that_an_engine_which_failed_did_not_take_are_refused() -> None:
    engine = core(FakeModel(FULL), FULL)
    refused = at_boundary(engine, lambda: 1)
    engine._broken = ValueError("broken")
    engine._end_all()
    assert isinstance(refused.exception(1), EngineError)


def test_a_preemption_is_kept_with_the_figures_that_caused_it() -> None:
    kv = layout((None, 6))
    model = FakeModel(kv)
    engine = core(model, kv, context=20)
    streams: list[Stream] = [engine.submit([n, 2, 3, 4, 5, 6], LONG.replace(max_tokens=n), name=str(n)) for n in (9, 8)]
    drain(engine, model)
    (kept,) = engine.preempted
    assert (kept.request, kept.gainer_name) == ("8", "9") and engine.preemptions == 1
    assert kept.needed > kept.available == (0,) and kept.granted == 1
    assert kept.held == (3,) and kept.computed == 12
    assert [last(stream).timings.preemptions for stream in streams] == [0, 1]
    assert abs(kept.at - time.time()) < 60 and 1 < kept.step < engine.steps
