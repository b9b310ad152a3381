"""The state that an engine reports, and events that go to the caller's own sink."""

from __future__ import annotations

from cutaway.engine import Event, Finished, TokenChosen, status_of
from engine.driving import FULL, GREEDY, core, drain
from engine.fake_model import FakeModel


class Kept:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, event: Event, /) -> None:
        self.events.append(event)


def test_status_counts_requests_steps_and_every_page() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    engine.submit([1, 2, 3], GREEDY)
    engine.step()
    now = status_of(engine)
    assert (now.running, now.waiting, now.steps) == (1, 0, 1) and now.busy > 0
    (pages,) = now.pages
    assert pages.held == 1 and pages.free + pages.held + pages.cached == 40
    drain(engine, model)
    later = status_of(engine)
    assert later.running == 0 and later.pages[0].held == 0 and later.pages[0].cached > 0


def test_events_go_to_a_sink() -> None:
    model, sink = FakeModel(FULL), Kept()
    engine = core(model, FULL)
    stream = engine.submit([1, 2, 3], GREEDY.replace(n=2), sink=sink)
    drain(engine, model)
    assert stream.events.empty()
    assert sum(isinstance(e, Finished) for e in sink.events) == 2
    assert sum(isinstance(e, TokenChosen) for e in sink.events) == 16
