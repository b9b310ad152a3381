"""The clock that templates see: fixed, or read once, so that what is rendered twice is the same."""

from __future__ import annotations

import threading
import time

import pytest

from cutaway.errors import ParameterError
from cutaway.text.chat.clock import Clock, clock, now, parse_date, showing
from cutaway.text.chat.jinja_environment import make_environment

TEMPLATE = make_environment("".join).from_string("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}")


def test_a_fixed_date_is_what_a_template_sees() -> None:
    with clock(parse_date("2026-12-01T09:30")) as seen:
        assert TEMPLATE.render() == "2026-12-01 09:30:00"
    assert seen.seen == parse_date("2026-12-01T09:30")
    assert abs(now().timestamp() - time.time()) < 5


def test_a_moment_that_was_read_does_not_move() -> None:
    with clock() as seen:
        first = now()
        time.sleep(0.02)
        assert now() == first
    assert seen.seen is not None and abs(seen.seen - first.timestamp()) < 1e-5
    with showing(seen):  # later, and in another thread
        assert now() == first
    with clock() as unread:
        pass
    assert unread.seen is None


def test_blocks_within_blocks_share_a_clock_and_threads_do_not() -> None:
    with clock() as outer, clock(1000.0) as inner:
        assert inner is outer and now().timestamp() == 1000.0
    with clock(5.0) as outer, clock(1000.0):
        assert now().timestamp() == 5.0
        others: list[float] = []
        thread = threading.Thread(target=lambda: others.append(now().timestamp()))
        thread.start()
        thread.join()
        assert abs(others[0] - time.time()) < 60
    assert Clock(3.0).now() == 3.0


def test_dates() -> None:
    assert parse_date("2026-12-01T00:00:00+00:00") == parse_date("2026-12-01T01:00+01:00") == 1_796_083_200
    assert parse_date(" 2026-12-01 ") == parse_date("2026-12-01T00:00")
    for wrong in ("", "today", "2026-13-01", "1", "0001-01-01T00:00:00+23:59"):
        with pytest.raises(ParameterError, match="date is"):
            parse_date(wrong)
