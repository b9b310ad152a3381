"""The words for a model's size and types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.formats import open_model, parameter_count, parameter_size, quantization_level
from tiny_llama import weights, write_gguf

TOKENS = [chr(97 + i) for i in range(20)]


@pytest.mark.parametrize(("count", "words"), [
    (7, "7"), (2_000, "2K"), (134_515_008, "134.52M"), (494_032_768, "494.03M"), (8_000_000_000, "8B"),
    (1_543_714_304, "1.5B"), (70_553_706_496, "70.6B"),
])  # fmt: skip
def test_sizes(count: int, words: str) -> None:
    assert parameter_size(count) == words


def test_a_file_is_called_what_it_says_or_what_most_of_it_is(tmp_path: Path) -> None:
    tensors = weights(len(TOKENS))
    for number, name in ((15, "Q4_K_M"), (1, "F16"), (9999, "F32"), (None, "F32")):
        keys = {"tokenizer.ggml.tokens": TOKENS} | ({} if number is None else {"general.file_type": number})
        with open_model(write_gguf(tmp_path / f"{number}.gguf", keys, tensors=tensors)) as file:
            assert quantization_level(file) == name
            assert parameter_count(file) == sum(int(np.prod(array.shape)) for array in tensors.values())
