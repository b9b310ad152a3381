"""Outlines of files: shapes and sizes without data."""

from __future__ import annotations

import pytest

from cutaway.errors import FormatError
from cutaway.formats import outline_of, without_data


def test_large_values_take_no_memory_and_have_their_size() -> None:
    file = outline_of("m", "gguf", [("w", "Q4_K", (1 << 20, 4096)), ("v", "F32", (1 << 20,))])
    raw = file.tensors["w"].raw
    assert raw.nbytes == (1 << 20) * 4096 // 256 * 144 and raw.base is not None and raw.strides == (0,)
    assert file.tensors["v"].raw.view("f4").sum() == 0.0
    again = without_data(file)
    assert {n: (t.type, t.shape, t.raw.nbytes) for n, t in again.tensors.items()} == {
        n: (t.type, t.shape, t.raw.nbytes) for n, t in file.tensors.items()
    }


def test_a_row_is_whole_blocks() -> None:
    with pytest.raises(FormatError, match="whole number"):
        outline_of("m", "gguf", [("w", "Q4_K", (16, 100))])
