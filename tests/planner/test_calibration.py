"""Lines fitted to measurements, files of them, and when there is no prediction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutaway.planner.calibration import Calibration, Sample, fit, read_all, save
from cutaway.planner.latency import Work, other_predictor, own_predictor

FIXED, TOKEN, PAIR, POSITION = 3.0, 0.5, 1e-4, 0.002
BASES = {1: 10.0, 4: 12.0, 8: 20.0}


def first(n: int) -> float:
    return FIXED + TOKEN * n + PAIR * n * (n + 1) / 2


def each(r: int, c: int) -> float:
    return BASES[r] + POSITION * r * c


def calibration(noise: float = 0.0, **changes: object) -> Calibration:
    around = (1 - noise, 1.0, 1 + noise)
    samples = [Sample(True, 1, n, tuple(first(n) * a for a in around)) for n in (128, 512, 2048, 4096)]
    samples += [Sample(False, r, c, tuple(each(r, c) * a for a in around)) for r in BASES for c in (140, 524, 2060)]
    made = Calibration(
        "m", "ab" * 32, "avx512", 2, "bf16", "bf16", 1000.0, 0.01, tuple(samples), 1e8, 2e8, 2e4, 1e5, True
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_lines_are_found_again() -> None:
    lines = fit(calibration())
    for n in (64, 1000, 8000):
        assert lines.first(n) == pytest.approx(first(n), rel=1e-3)
    for r in BASES:
        assert lines.each(r, 5000) == pytest.approx(each(r, 5000), rel=1e-3)
    assert lines.base(2) == pytest.approx(10 + 2 / 3, rel=1e-3)
    assert lines.base(16) == pytest.approx(36.0, rel=1e-3)  # on along the last piece


def test_intervals_hold_what_was_measured() -> None:
    predictor = own_predictor(calibration(0.08), now=1100.0)
    assert predictor.sound
    for r in BASES:
        times = predictor.each(r, 1000)
        assert times is not None and times.low < 0.93 * each(r, 1000) < 1.07 * each(r, 1000) < times.high
        assert times.width < 0.2
    assert own_predictor(calibration(), now=5000.0).sound is False  # too old
    assert own_predictor(calibration(busy=0.5), now=1100.0).sound is False
    assert own_predictor(calibration(busy=None), now=1100.0).sound is False


def test_nothing_is_said_far_beyond_what_was_measured() -> None:
    predictor = own_predictor(calibration(), now=1000.0)
    assert predictor.first(4 * 4096) is not None and predictor.first(4 * 4096 + 1) is None
    assert predictor.each(32, 100) is not None and predictor.each(33, 100) is None
    assert predictor.attention(1, 1 << 20) is None
    share = predictor.attention(1, 5000)
    assert share == pytest.approx(0.5, rel=0.01)


def test_another_model_is_scaled_by_what_it_reads_and_computes() -> None:
    work = Work(2e8, 8e8, 4e4, 2e5, True)
    predictor = other_predictor([calibration()], work, 1000.0)
    assert predictor is not None and not predictor.sound and "m" in predictor.basis
    one, tokens = predictor.each(1, 0), predictor.first(512)
    assert one is not None and one.middle == pytest.approx(20.0, rel=0.01)
    assert tokens is not None and tokens.middle == pytest.approx(3 + 4 * 256 + 2 * 1e-4 * 512 * 513 / 2, rel=0.01)
    assert other_predictor([calibration()], replace(work, integer=False), 1000.0) is None
    experts = other_predictor([calibration()], replace(work, experts=True), 1000.0)
    assert experts is not None and experts.each(1, 9) is not None and experts.each(2, 9) is None


def test_files(tmp_path: Path) -> None:
    old, new = calibration(), calibration(made=2000.0, threads=4)
    for one in (old, new):
        save(one, tmp_path)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text('{"format": 99}')
    (tmp_path / "short.json").write_text('{"format": 1, "samples": []}')
    assert read_all(tmp_path) == [new, old]
    assert read_all(tmp_path / "nothing") == []
