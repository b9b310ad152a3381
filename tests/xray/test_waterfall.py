"""The time to the first token in parts that add up; the slowest are kept."""

from __future__ import annotations

from time import time

from hypothesis import given
from hypothesis import strategies as st

from cutaway.xray.waterfall import LATEST, SLOWEST, Waterfall, Waterfalls, picture, waterfall_parts

SPAN = st.floats(0, 100, allow_nan=False)


@given(SPAN, SPAN, SPAN, SPAN, SPAN)
def test_parts_add_up_to_the_whole(arrive: float, prepare: float, queue: float, prefill: float, deliver: float) -> None:
    began = 1000.0
    submitted = began + arrive + prepare
    first = submitted + queue + prefill + deliver
    parts = waterfall_parts(began, began + arrive, submitted, first, queue, prefill)
    assert abs(sum(parts.values()) - (first - began) * 1e3) < 1e-3 and min(parts.values()) >= 0


def one(number: int, ttft: float, caller: str = "a", age: float = 0.0) -> Waterfall:
    return Waterfall(f"r{number}", caller, "m", time() - age, {"queue": ttft / 2, "prefill": ttft / 2}, 10, 0)


def test_the_slowest_stay_when_many_come_after_them() -> None:
    kept = Waterfalls()
    for number in range(1000):
        kept.add(one(number, 5000.0 - number if number < SLOWEST else 1.0))
    assert [w.request for w in kept.slowest(lambda _: True)] == [f"r{n}" for n in range(SLOWEST)]
    latest = [w.request for w in kept.latest(lambda _: True)]
    assert latest[0] == "r999" and len(latest) == LATEST + SLOWEST
    assert [w.request for w in kept.latest(lambda _: True, "r3")] == ["r3"]


def test_the_slow_ones_of_yesterday_go_and_others_callers_are_not_shown() -> None:
    kept = Waterfalls()
    kept.add(one(1, 9999.0, age=4000))
    kept.add(one(2, 10.0, caller="b"))
    kept.add(one(3, 5.0))
    assert [w.request for w in kept.slowest(lambda _: True)] == ["r2", "r3"]
    assert [w.request for w in kept.slowest(lambda caller: caller == "a")] == ["r3"]
    assert "r2" not in [w.request for w in kept.latest(lambda caller: caller == "a")]


def test_the_bar_is_as_long_as_its_share() -> None:
    parts = {"arrive": 0.0, "queue": 25.0, "prefill": 75.0}
    assert picture(parts, 100.0, 40) == "." * 10 + "#" * 30
    assert picture(parts, 200.0, 40) == "." * 5 + "#" * 15
    assert picture({"queue": 0.0}, 0.0, 40) == ""
