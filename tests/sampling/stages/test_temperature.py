from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cutaway.sampling import SamplingParams
from cutaway.sampling.stages.temperature import temperature_at

FLAT = np.zeros(50, np.float32)
PEAKED = np.array([100.0] + [0.0] * 49, np.float32)


def at(position: int, row: Any = FLAT, **options: Any) -> float:
    return temperature_at(SamplingParams(**options), position, row, float(row.max()))


def test_fixed() -> None:
    assert at(9, temperature=0.7) == 0.7


def test_by_length() -> None:
    options = {"temperature": 1.0, "temperature_end": 0.5, "temperature_length": 10}
    assert [at(position, **options) for position in (0, 5, 10, 99)] == [1.0, 0.75, 0.5, 0.5]


def test_by_entropy() -> None:
    options = {"temperature": 1.0, "dynamic_temperature_range": 0.4}
    assert at(0, FLAT, **options) == pytest.approx(1.4, abs=1e-12)
    assert at(0, PEAKED, **options) == pytest.approx(0.6, abs=1e-9)
    assert at(0, PEAKED, temperature=0.2, dynamic_temperature_range=0.5) == pytest.approx(0.0, abs=1e-9)
    row = np.log(np.array([0.5, 0.25, 0.125, 0.125], np.float32))
    share = 1.75 * math.log(2) / math.log(4)
    assert at(0, row, **options) == pytest.approx(0.6 + 0.8 * share, abs=1e-6)
    assert at(0, row, dynamic_temperature_exponent=2, **options) == pytest.approx(0.6 + 0.8 * share**2, abs=1e-6)


def test_banned_tokens_do_not_count_for_entropy() -> None:
    row = np.array([0.0, 0.0, -np.inf, -np.inf], np.float32)
    assert at(0, row, dynamic_temperature_range=0.5) == pytest.approx(1.5)
    one = np.array([0.0, -np.inf], np.float32)
    assert at(0, one, dynamic_temperature_range=0.5) == 0.5
