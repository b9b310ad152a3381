"""The native selection against a NumPy oracle: same order, same odds bit for bit, same draw."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cutaway.native import _native

UNIT = 2.0**44
ROUND = 6755399441055744.0
SIZES = (1, 2, 63, 64, 65, 127, 128, 129, 1000, 5003)


def oracle_exp(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The definition, in NumPy: each operation rounded on its own."""
    y = np.maximum(y, -40.0)
    shifted = y * 1.4426950408889634 + ROUND
    n = shifted - ROUND
    r = (y - n * float.fromhex("0x1.62e42fee00000p-1")) - n * float.fromhex("0x1.a39ef35793c76p-33")
    p = np.full_like(y, 1.0 / math.factorial(13))
    for k in range(12, -1, -1):
        p = p * r + 1.0 / math.factorial(k)
    return np.ldexp(p, n.astype(np.int64))


def oracle_odds(logits: NDArray[np.float32], top: float, inverse: float) -> NDArray[np.int64]:
    return np.rint(oracle_exp((logits.astype(np.float64) - top) * inverse) * UNIT).astype(np.int64)


def oracle_order(row: NDArray[np.float32]) -> NDArray[np.int64]:
    ids = np.lexsort((np.arange(len(row)), -row.astype(np.float64)))
    return ids[np.isfinite(row[ids])]


def oracle_draw(
    row: NDArray[np.float32], inverse: float, top_k: int, top_p: float, min_p: float, uniform53: int
) -> int:
    ids = oracle_order(row)
    if 0 < top_k < len(row):
        ids = ids[:top_k]
    odds = [int(x) for x in oracle_odds(row[ids], float(row[ids[0]]), inverse)]
    if top_p < 1:
        wanted, total, kept = top_p * float(sum(odds)), 0, 0
        while kept == 0 or float(total) < wanted:
            total += odds[kept]
            kept += 1
        odds = odds[:kept]
    if min_p > 0:
        odds = [x for x in odds if float(x) >= min_p * UNIT]
    target, total = uniform53 * sum(odds) >> 53, 0
    for i, x in enumerate(odds):
        total += x
        if total > target:
            return int(ids[i])
    raise AssertionError("a draw falls somewhere")


def rows(seed: int, size: int) -> NDArray[np.float32]:
    """Rows with ties, zeros of both signs and banned tokens."""
    rng = np.random.default_rng(seed)
    row = (rng.standard_normal(size) * rng.choice([0.01, 1, 4, 30])).astype(np.float32)
    if seed % 3 == 0:
        row = np.round(row)
    row[rng.random(size) < 0.05] = -0.0
    row[rng.random(size) < 0.05] = 0.0
    row[rng.random(size) < 0.1] = -np.inf
    row[rng.integers(size)] = 1.0
    return row


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_best_and_order(seed: int, size: int) -> None:
    row = rows(seed, size)
    whole = oracle_order(row)
    assert _native.best_token(row) == whole[0]
    for count in {1, 2, 5, size // 64 + 1, size // 2 + 1, size}:
        out = np.full(count, -7, np.int32)
        found = _native.order_tokens(row, out)
        assert found == min(count, len(whole))
        assert out[:found].tolist() == whole[:found].tolist()
        assert (out[found:] == -7).all()


@pytest.mark.parametrize("size", SIZES)
def test_sums_and_ranks(size: int) -> None:
    row = rows(4, size)
    top = float(row.max())
    for inverse in (1.0, 1 / 0.7, 100.0, 0.01):
        odds = np.empty(size, np.int64)
        _native.odds_of(row, top, inverse, odds)
        assert odds.tolist() == oracle_odds(row, top, inverse).tolist()
        total, spread, finite = _native.measure_row(row, top, inverse)
        assert total == int(odds.sum())
        assert finite == np.isfinite(row).sum()
        y = np.maximum((row.astype(np.float64) - top) * inverse, -40.0)
        assert spread == int(np.rint(oracle_exp(y) * -y * UNIT).astype(np.int64).sum())
    order = oracle_order(row).tolist()
    for token in order[:20]:
        assert _native.count_before(row, token) == order.index(token)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from((*SIZES, 40_000)),
    temperature=st.sampled_from([1e-4, 0.1, 0.7, 1.0, 1.7, 50.0]),
    top_k=st.sampled_from([0, 1, 2, 40, 1000, 10**6]),
    top_p=st.sampled_from([0.0, 1e-4, 0.3, 0.9, 0.999999, 1.0]),
    min_p=st.sampled_from([0.0, 1e-9, 0.05, 1.0]),
    uniform=st.one_of(st.sampled_from([0, 2**53 - 1]), st.integers(0, 2**53 - 1)),
)
def test_draw(
    *, seed: int, size: int, temperature: float, top_k: int, top_p: float, min_p: float, uniform: int
) -> None:
    row = rows(seed, size)
    settings = (1 / temperature, top_k, top_p, min_p, uniform)
    assert _native.draw_token(row, *settings) == oracle_draw(row, *settings)


def test_draw_from_a_flat_row_of_full_size() -> None:
    row = np.zeros(151_936, np.float32)
    for uniform in (0, 2**52, 2**53 - 1):
        assert _native.draw_token(row, 1.0, 0, 1.0, 0.0, uniform) == uniform * 151_936 >> 53


@pytest.mark.parametrize("at", [0, 63, 64, 130])
@pytest.mark.parametrize(
    ("value", "fault"), [(np.nan, -1), (-np.nan, -1), (np.inf, -2)], ids=["nan", "minus nan", "infinity"]
)
def test_faults(value: float, fault: int, at: int) -> None:
    row = np.linspace(-3, 3, 131, dtype=np.float32)
    row[at] = value
    assert _native.best_token(row) == fault
    assert _native.draw_token(row, 1.0, 5, 0.9, 0.0, 1) == fault
    assert _native.order_tokens(row, np.empty(3, np.int32)) == fault


def test_nothing_left() -> None:
    assert _native.best_token(np.full(70, -np.inf, np.float32)) == -3
    assert _native.best_token(np.full(1, -3.4e38, np.float32)) == 0


@pytest.mark.parametrize("row", [np.zeros(4), np.zeros((2, 2), np.float32), np.zeros(8, np.float32)[::2], [1.0]])
def test_takes_only_contiguous_float32_rows(row: Any) -> None:
    with pytest.raises(TypeError):
        _native.best_token(row)


def test_bounds() -> None:
    with pytest.raises(ValueError, match="524287"):
        _native.best_token(np.zeros(0, np.float32))
    with pytest.raises(ValueError, match="524287"):
        _native.best_token(np.zeros(2**19, np.float32))
    with pytest.raises(IndexError):
        _native.count_before(np.zeros(4, np.float32), 4)
    with pytest.raises(ValueError, match="as long"):
        _native.odds_of(np.zeros(4, np.float32), 0.0, 1.0, np.zeros(3, np.int64))


def test_exp_and_log_are_near_the_truth() -> None:
    rng = np.random.default_rng(1)
    for y in [0.0, -1e-300, -0.34657, -0.34658, -39.99, *(-rng.random(2000) * 40)]:
        assert _native.exp_nonpositive(float(y)) == pytest.approx(math.exp(y), rel=3e-16)
    assert _native.exp_nonpositive(-math.inf) == _native.exp_nonpositive(-40.0)
    for x in [1.0, 2.0, 0.5, math.sqrt(2), math.sqrt(0.5), 1e-300, 1e300, *np.exp(rng.standard_normal(2000) * 20)]:
        assert _native.log_positive(float(x)) == pytest.approx(math.log(x), rel=4e-16, abs=1e-300)


def test_the_same_bits_on_every_machine() -> None:
    """Odds and logarithms of fixed inputs, as one hash: whatever machine, compiler or instruction set."""
    logits = (np.arange(20_000, dtype=np.float32) * np.float32(-0.0015)) + np.float32(3)
    odds = np.empty(len(logits), np.int64)
    _native.odds_of(logits, 3.0, 1.25, odds)
    logs = np.array([_native.log_positive(1 + i * 0.37) for i in range(2000)])
    assert hashlib.sha256(odds.astype("<i8").tobytes() + logs.astype("<f8").tobytes()).hexdigest()[:16] == GOLDEN


GOLDEN = "c456ca3ac09e572e"
