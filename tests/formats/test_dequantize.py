"""Every tensor type against the gguf package, bit for bit; what that package lacks against plain scalar code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from cutaway.errors import FormatError, UnsupportedError
from cutaway.formats import BLOCKS, decompose, dequantize, grids
from cutaway.formats.block_codes import SPLITS
from cutaway.formats.blocks import GGUF_TYPES, REFUSED_TYPES, tensor_bytes

ORACLE_TYPES = ["F32", "F16", *(kind.name for kind in gguf.quants._type_traits)]
UNCHECKED = {"Q1_0", "Q2_0"}  # numbers 41 and 42: the package cannot dequantize them


def random_blocks(type: str, blocks: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, blocks * BLOCKS[type][1], dtype=np.uint8)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal as bit patterns, except that all NaNs are alike."""
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))))


def oracle(type: str, raw: np.ndarray, rows: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return gguf.dequantize(raw.reshape(rows, -1), GGMLQuantizationType[type])


def test_every_type_of_the_package_is_read() -> None:
    assert set(ORACLE_TYPES) <= set(BLOCKS)
    assert set(SPLITS) == set(ORACLE_TYPES) - {"F32", "F16", "BF16"} | UNCHECKED


@pytest.mark.parametrize("type", ORACLE_TYPES)
def test_values_are_those_of_the_package(type: str) -> None:
    rows, blocks = 7, 33 * 256 // BLOCKS[type][0]
    raw = random_blocks(type, rows * blocks)
    ours = dequantize(type, raw, (rows, blocks * BLOCKS[type][0]))
    assert ours.dtype == np.float32
    assert ours.flags.writeable
    assert same_bits(ours, oracle(type, raw, rows))


@pytest.mark.parametrize("type", ORACLE_TYPES)
def test_every_value_of_every_byte_decodes_alike(type: str) -> None:
    """Each byte of a block takes all 256 values, the others staying as they are."""
    size = BLOCKS[type][1]
    rng = np.random.default_rng(1)
    raw = np.tile(rng.integers(0, 256, (1, 1, 1, size), dtype=np.uint8), (1, size, 256, 1))
    at = np.arange(size)
    raw[:, at, :, at] = np.arange(256, dtype=np.uint8)
    raw = raw.reshape(-1)
    shape = (size, 256 * BLOCKS[type][0])
    assert same_bits(dequantize(type, raw, shape), oracle(type, raw, size))


@pytest.mark.parametrize("type", sorted(SPLITS))
def test_codes_scales_and_minimums_give_the_values(type: str) -> None:
    elements = BLOCKS[type][0]
    shape = (3, 5, 2 * elements)
    raw = random_blocks(type, 30, seed=2)
    codes = decompose(type, raw, shape)
    assert codes.codes.shape == (15, 2 * elements)
    assert codes.codes.dtype == np.int8
    assert codes.scale.shape == (15, 2 * elements // codes.group)
    assert codes.scale.dtype == np.float32
    with np.errstate(all="ignore"):
        values = np.repeat(codes.scale, codes.group, axis=1) * codes.codes.astype(np.float32)
        if codes.minimum is not None:
            assert codes.minimum.shape == codes.scale.shape
            values = values - np.repeat(codes.minimum, codes.group, axis=1)
    assert same_bits(values.reshape(shape), dequantize(type, raw, shape))


def test_which_types_have_a_minimum_and_their_groups() -> None:
    found = {type: decompose(type, random_blocks(type, 1), (1, BLOCKS[type][0])) for type in SPLITS}
    with_minimum = {type for type, codes in found.items() if codes.minimum is not None}
    assert with_minimum == {"Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K"}
    assert {type for type, codes in found.items() if codes.group == 16} == {
        "Q2_K", "Q3_K", "Q6_K", "IQ1_M", "IQ2_XS", "IQ2_S", "NVFP4",
    }  # fmt: skip


def test_one_and_two_bit_types_by_hand() -> None:
    d = np.float16(0.75)
    raw = np.frombuffer(d.tobytes() + bytes([0b00000101, *[0] * 15]), np.uint8)
    assert dequantize("Q1_0", raw, (128,))[:4].tolist() == [0.75, -0.75, 0.75, -0.75]
    raw = np.frombuffer(d.tobytes() + bytes([0b11100100, *[0b01010101] * 15]), np.uint8)
    assert dequantize("Q2_0", raw, (64,)).tolist() == [-0.75, 0.0, 0.75, 1.5] + [0.0] * 60


def test_long_tensors_are_cut_without_a_seam() -> None:
    raw = random_blocks("Q6_K", 2000, seed=3)
    whole = dequantize("Q6_K", raw, (2000, 256))
    rows = [dequantize("Q6_K", raw[210 * row : 210 * (row + 1)], (256,)) for row in range(2000)]
    assert same_bits(whole, np.stack(rows))


@pytest.mark.parametrize(
    ("type", "dtype", "values"),
    [("F64", "<f8", [1.5, -2.0]), ("I8", "i1", [-3, 3]), ("I16", "<i2", [-300, 300]), ("I32", "<i4", [-70000, 7]),
     ("I64", "<i8", [1, -1]), ("U8", "u1", [0, 255]), ("U16", "<u2", [0, 65535]), ("U32", "<u4", [0, 7]),
     ("U64", "<u8", [0, 7]), ("BOOL", "?", [0, 1])],
)  # fmt: skip
def test_plain_numbers(type: str, dtype: str, values: list[float]) -> None:
    raw = np.frombuffer(np.array(values, dtype).tobytes(), np.uint8)
    assert dequantize(type, raw, (2,)).tolist() == values


def test_eight_bit_floats() -> None:
    assert dequantize("F8_E4M3", np.array([0x38, 0x7E, 0x01], np.uint8), (3,)).tolist() == [1.0, 448.0, 2.0**-9]
    assert dequantize("F8_E5M2", np.array([0x3C, 0x7B, 0x01], np.uint8), (3,)).tolist() == [1.0, 57344.0, 2.0**-16]


def test_sizes_and_numbers_are_those_of_the_package() -> None:
    # The package still gives Q8_1 eight bytes of scales; nothing stores that type.
    for kind, size in GGML_QUANT_SIZES.items():
        if kind in REFUSED_TYPES:
            assert kind.name not in BLOCKS
        else:
            assert GGUF_TYPES[kind] == kind.name
            assert BLOCKS[kind.name] == size


def test_the_wrong_number_of_bytes_is_refused() -> None:
    with pytest.raises(FormatError, match="needs 36 bytes, there are 18"):
        dequantize("Q4_0", random_blocks("Q4_0", 1), (2, 32))
    with pytest.raises(FormatError, match="not a whole number of Q4_K blocks"):
        decompose("Q4_K", random_blocks("Q4_K", 1), (1, 128))


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="Q9_9"):
        dequantize("Q9_9", np.zeros(4, np.uint8), (1,))
    with pytest.raises(UnsupportedError, match="F32 has no codes"):
        decompose("F32", np.zeros(4, np.uint8), (1,))
    assert tensor_bytes("F32", ()) == 4


def test_the_grids_are_what_their_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("make_grids", Path(__file__).with_name("make_grids.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert Path(grids.__file__).read_text() == module.source()
