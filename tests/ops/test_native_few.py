"""One and two tokens read a weight in another order than many: they leave no row out, and have the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import F32, Hidden, Norm, Ops, Step
from tiny import SETS, floats, load_rows, matrix, product, step

THREADS = [1, 2, 3, 7]


def bits(x: F32) -> np.ndarray:
    return np.array(x).view(np.uint32)


@pytest.fixture(scope="module")
def teams() -> dict[int, NativeBackend]:
    return {threads: NativeBackend(threads=threads) for threads in THREADS}


@given(
    rows=st.integers(1, 2200), threads=st.sampled_from(THREADS), type=st.sampled_from(["Q4_1", "Q8_0", "BF16", "F32"])
)
@settings(max_examples=60)
def test_every_row_is_computed_and_only_once(
    teams: dict[int, NativeBackend], rows: int, threads: int, type: str
) -> None:
    """Runs of any length: whole units, what is left of them, and threads that have none."""
    x, m = floats(3, 64), matrix(type, rows, 64)
    weight = teams[threads].weight(m, floats(rows, seed=3))
    many = bits(product(teams[threads], weight, x))
    for count in (1, 2):
        assert np.array_equal(bits(product(teams[threads], weight, x[:count])), many[:count]), count


@pytest.mark.parametrize("rows", [2048, 4096, 6144])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_of_whole_pages(teams: dict[int, NativeBackend], rows: int, threads: int) -> None:
    """Parts of 32 panels are made shorter by one."""
    x, m = floats(3, 32), matrix("Q8_0", rows, 32)
    weight = teams[threads].weight(m)
    many = bits(product(teams[threads], weight, x))
    assert np.array_equal(bits(product(teams[threads], weight, x[:1])), many[:1])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("inner", [128, 288, 384, 896, 2048, 4096])
def test_a_feed_forwards_output_as_the_next_ones_input(name: str, threads: int, inner: int) -> None:
    """Recorded, groups of 32 outputs become int8 where they arise; driven, they are floats in between."""
    ops = NativeBackend(threads=threads, instruction_set=name)
    x = floats(20, 64)
    up, gate = ops.weight(matrix("Q5_0", inner, 64, 1)), ops.weight(matrix("Q4_0", inner, 64, 2))
    down, head = ops.weight(matrix("Q4_1", 64, inner, 3)), ops.weight(matrix("F32", 40, 64, 4))
    norm, embed = Norm("rms", np.ones(64, np.float32), None, 1e-5), load_rows(ops, x)

    def forward(o: Ops, s: Step) -> Hidden:
        x = embed(o, s)
        x = o.project_add(s, x, o.feed(s, x, norm, gate, up, "silu"), down, None, 0.5)
        return o.logits(s, x, norm, head, 1.0, None)

    run = ops.record(forward)
    many = bits(run(step(20)).values)
    assert np.array_equal(many, bits(ops.drive(forward, step(20))))
    for count in (1, 2, 3):
        assert np.array_equal(bits(run(step(count)).values), many[:count]), count
