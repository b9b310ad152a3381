"""How far two sequences are alike."""

from __future__ import annotations

from cutaway.xray.same_start import same_start


def test_shared_beginnings() -> None:
    assert same_start([1, 2, 3], [1, 2, 4]) == 2 and same_start([1], [1, 2]) == 1 and same_start([], [1]) == 0
