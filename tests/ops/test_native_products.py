"""Every quant type x instruction set x tile height: against exact arithmetic, and bit for bit against each other."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from cutaway.errors import ParameterError
from cutaway.formats import BLOCKS, decompose
from cutaway.formats.block_codes import SPLITS
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.native.packing import TYPE_NUMBERS, PackedWeight
from cutaway.ops.protocol import F32, Matrix
from cutaway.ops.rounding import ACTIVATION_GROUP, round_groups
from tiny import ALIKE, SETS, floats, matrix, product, values

QUANTIZED = sorted(SPLITS)
FLOAT_TYPES = ["F32", "F16", "BF16"]
HEIGHTS = [1, 2, 3, 4, 5, 8, 9, 16, 31]


@pytest.fixture(scope="module")
def backends() -> dict[str, NativeBackend]:
    return {name: NativeBackend(threads=1, instruction_set=name) for name in SETS}


def in_two(x: F32) -> F32:
    """What a matrix unit sees of floats: bf16, and the rest in bf16."""
    high = x.astype(bfloat16).astype(np.float32)
    return high + (x - high).astype(bfloat16).astype(np.float32)


def exact(m: Matrix, x: F32, name: str = "") -> tuple[np.ndarray, np.ndarray]:
    """weight @ rounded(x) in float64, and how much its terms (codes and minima apart) add up to without their signs."""
    if m.type in FLOAT_TYPES:
        rounded = in_two(x) if (name, m.type) == ("amx", "BF16") else x
    else:
        rounded = round_groups(x, ACTIVATION_GROUP)
    w = values(m).astype(np.float64)
    size = np.abs(w)
    if m.type not in FLOAT_TYPES:
        parts = decompose(m.type, m.raw, (m.rows, m.inputs))
        if parts.minimum is not None:
            size = np.abs(np.repeat(parts.scale, parts.group, 1) * parts.codes) + np.abs(
                np.repeat(parts.minimum, parts.group, 1)
            )
    return rounded.astype(np.float64) @ w.T, np.abs(rounded.astype(np.float64)) @ size.T


TOLERANCE = 1e-6  # of the terms' sizes: float32 sums over tens of groups


@pytest.mark.parametrize("type", [*QUANTIZED, *FLOAT_TYPES])
def test_products_are_exact_and_equal_on_every_instruction_set(type: str, backends: dict[str, NativeBackend]) -> None:
    inputs = max(BLOCKS[type][0], 32) * 3
    m = matrix(type, 37, inputs)
    for height in HEIGHTS:
        x = floats(height, inputs, seed=height)
        results = {name: product(ops, ops.weight(m), x) for name, ops in backends.items()}
        for name, got in results.items():
            want, size = exact(m, x, name)
            assert np.all(np.abs(got - want) <= TOLERANCE * size), (name, height)
            if name in ALIKE or type != "BF16":
                assert np.array_equal(got.view(np.uint32), results["plain"].view(np.uint32)), (name, height)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("inputs", [31, 64, 130])
@pytest.mark.parametrize("size", [1.0, 1e-38, 1e-41])
def test_a_row_of_floats_has_the_same_bits_in_any_company(
    name: str, inputs: int, size: float, backends: dict[str, NativeBackend]
) -> None:
    """Also where activations and products are so small that a matrix unit takes them for zero."""
    ops, x = backends[name], floats(40, inputs) * np.float32(size)
    weight = ops.weight(matrix("BF16", 53, inputs))
    alone = np.concatenate([product(ops, weight, row[None]) for row in x])
    for height in [*HEIGHTS, 40]:
        assert np.array_equal(product(ops, weight, x[:height]).view(np.uint32), alone[:height].view(np.uint32)), height


@pytest.mark.parametrize("type", QUANTIZED)
def test_one_swapped_scale_fails(type: str, backends: dict[str, NativeBackend]) -> None:
    """The tolerance above is tight enough: two exchanged scales of one row are far outside it."""
    inputs = max(BLOCKS[type][0], 32) * 3
    m, x = matrix(type, 37, inputs), floats(1, inputs, seed=5)
    parts = decompose(type, m.raw, (m.rows, inputs))
    scale = parts.scale.copy()
    row, a, b = next(
        (r, 0, g) for r in range(37) for g in range(1, scale.shape[1]) if abs(scale[r, 0] / scale[r, g] - 1) > 0.3
    )
    scale[row, [a, b]] = scale[row, [b, a]]
    swapped = parts.codes * np.repeat(scale, parts.group, 1)
    if parts.minimum is not None:
        swapped = swapped - np.repeat(parts.minimum, parts.group, 1)
    _, size = exact(m, x)
    got = product(backends[SETS[-1]], backends[SETS[-1]].weight(m), x)
    error = np.abs(got - round_groups(x, ACTIVATION_GROUP).astype(np.float64) @ swapped.T.astype(np.float64))
    assert error[0, row] > 10 * TOLERANCE * size[0, row]


@pytest.mark.parametrize("type", [*QUANTIZED, *FLOAT_TYPES])
@pytest.mark.parametrize("rows", [1, 16, 17, 31])
def test_rows_that_do_not_fill_a_panel(type: str, rows: int, backends: dict[str, NativeBackend]) -> None:
    inputs = max(BLOCKS[type][0], 32)
    m, x = matrix(type, rows, inputs), floats(3, inputs)
    want, size = exact(m, x, SETS[-1])
    got = product(backends[SETS[-1]], backends[SETS[-1]].weight(m), x)
    assert got.shape == (3, rows)
    assert np.all(np.abs(got - want) <= TOLERANCE * size)


@pytest.mark.parametrize("inputs", [1, 2, 15, 16, 31, 33, 70])
@pytest.mark.parametrize("type", FLOAT_TYPES)
def test_float_weights_take_any_number_of_inputs(type: str, inputs: int, backends: dict[str, NativeBackend]) -> None:
    m, x = matrix(type, 19, inputs), floats(9, inputs)
    for name, ops in backends.items():
        want, size = exact(m, x, name)
        assert np.all(np.abs(product(ops, ops.weight(m), x) - want) <= TOLERANCE * size)


@pytest.mark.parametrize("type", sorted(TYPE_NUMBERS))
def test_embedding_rows_are_the_files_own_values(type: str, backends: dict[str, NativeBackend]) -> None:
    m = matrix(type, 9, BLOCKS[type][0] * 2)
    ops = backends[SETS[-1]]
    assert np.array_equal(rows_of(ops, m), values(m))


@pytest.mark.parametrize("type", sorted(set(QUANTIZED) - set(TYPE_NUMBERS)))
def test_embedding_rows_of_types_without_a_layout(type: str, backends: dict[str, NativeBackend]) -> None:
    m = matrix(type, 21, max(BLOCKS[type][0], 32))
    assert np.array_equal(rows_of(backends[SETS[-1]], m), values(m))


def rows_of(ops: NativeBackend, m: Matrix) -> F32:
    from tiny import step

    table = ops.table(m)
    return ops.drive(lambda o, s: o.embed(s, table, 1.0), step(m.rows))


@pytest.mark.parametrize("type", [*QUANTIZED, *FLOAT_TYPES])
def test_an_outline_takes_what_packing_takes(type: str, backends: dict[str, NativeBackend]) -> None:
    """Blocks of random bytes: those types that are packed as codes have at most 16 of them, whatever the data."""
    m = matrix(type, 40, max(BLOCKS[type][0], 32) * 2)
    real, outline = backends["plain"].weight(m), backends["plain"].outline()
    promised = outline.weight(m)
    assert isinstance(real, PackedWeight)
    assert real.nbytes == promised.nbytes and real.packed.held == promised.packed.held == outline.packed[type].packed


def test_a_nan_survives_quantization(backends: dict[str, NativeBackend]) -> None:
    for ops in backends.values():
        weight = ops.weight(matrix("Q4_K", 16, 256))
        for poison in (np.nan, np.inf, -np.inf):
            x = floats(3, 256)
            x[1, 77] = poison
            got = product(ops, weight, x)
            assert np.isnan(got[1]).all()
            assert np.isfinite(got[[0, 2]]).all()


def test_an_unknown_instruction_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="sse9"):
        NativeBackend(instruction_set="sse9")
    monkeypatch.setenv("CUTAWAY_ISA", "plain")
    assert NativeBackend(threads=1).instruction_set == "plain"


def test_values_too_small_for_a_scale_become_zero(backends: dict[str, NativeBackend]) -> None:
    """127 / max overflows below about 4e-37: such a group is worth nothing, and does not poison its token."""
    m = matrix("Q8_0", 16, 64)
    x = floats(2, 64)
    x[:, :32] *= np.float32(1e-38)
    for ops in backends.values():
        got = product(ops, ops.weight(m), x)
        want, size = exact(m, x)
        assert np.all(np.abs(got - want) <= TOLERANCE * size)
