"""What storing does to a value, from the definitions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cutaway.ops.rounding import ROUND, round_bf16, round_fp8, round_groups, round_int8

ROWS = arrays(np.float32, (3, 64), elements=st.floats(-1000, 1000, width=32))


def test_int8_is_the_code_times_the_scale() -> None:
    x = np.array([[127.0, 1.5, 2.5, -3.5, 0.49, -127.0]], np.float32)  # scale 1: halves go to the even code
    assert round_int8(x).tolist() == [[127.0, 2.0, 2.0, -4.0, 0.0, -127.0]]


def test_groups_have_their_own_scales() -> None:
    x = np.concatenate([np.full(32, 1e-3), np.full(32, 1e3)]).astype(np.float32)[None]
    np.testing.assert_allclose(round_groups(x, 32), x, rtol=1e-6)
    assert (round_groups(x, 64)[0, :32] == 0).all()


@settings(deadline=None)
@given(ROWS)
def test_int8_is_off_by_at_most_half_a_step(x: np.ndarray) -> None:
    step = np.abs(x.reshape(3, 2, 32)).max(-1) / 127
    error = np.abs(round_groups(x, 32) - x).reshape(3, 2, 32)
    tiny = np.finfo(np.float32).tiny * 128  # below it the scale itself is denormal
    assert (error <= 0.5001 * step[..., None] + tiny).all()


@settings(deadline=None)
@given(ROWS)
def test_fp8_keeps_three_bits(x: np.ndarray) -> None:
    top = np.abs(x).max(-1, keepdims=True)
    error = np.abs(round_fp8(x) - x)
    tiny = np.finfo(np.float32).tiny * 512
    assert (error <= np.maximum(np.abs(x) / 16, top / 448 * 2.0**-10) * 1.0001 + tiny).all()


def test_bf16_rounds_to_even() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001], np.uint32)
    assert round_bf16(bits.view(np.float32)).view(np.uint32).tolist() == [0x3F800000, 0x3F820000, 0x3F810000]


@pytest.mark.parametrize("kind", ROUND)
def test_zeros_stay_zero(kind: str) -> None:
    assert (ROUND[kind](np.zeros((2, 8), np.float32)) == 0).all()


@pytest.mark.parametrize("kind", ROUND)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_survives(kind: str, bad: float) -> None:
    x = np.ones((2, 8), np.float32)
    x[0, 3] = bad
    y = ROUND[kind](x)
    assert not np.isfinite(y[0]).all()
    np.testing.assert_allclose(y[1], 1, rtol=1e-6)


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_a_row_too_small_for_its_scale_is_zero(kind: str) -> None:
    """448 / 1e-37 overflows; without care its zeros would become 0 * inf."""
    x = np.array([[1e-37, 0.0, 3.0, 0.0], [1.0, 0.0, 0.0, 0.0]], np.float32)[:, [0, 1, 3]]
    y = ROUND[kind](x)
    assert np.isfinite(y).all()
    assert np.abs(y - x).max() < 1e-36


def test_everything_stays_float32() -> None:
    x = np.ones((2, 32), np.float32)
    assert {f(x).dtype for f in ROUND.values()} == {np.dtype(np.float32)}
    assert round_fp8(x * 448)[0, 0] == float(ml_dtypes.float8_e4m3fn(448.0))
