from __future__ import annotations

import numpy as np
import pytest

from cutaway.bench import SHAPES, held_bytes, synthetic_model
from cutaway.bench.synthetic import random_blocks
from cutaway.errors import ParameterError
from cutaway.formats import BLOCKS, dequantize
from cutaway.model import read_spec
from cutaway.ops.backends import open_backend
from cutaway.planner import outline_model


def test_a_known_model_has_its_real_shape() -> None:
    file = synthetic_model("smollm2-135m", "Q4_0")
    spec = read_spec(file)
    assert (spec.layers, spec.hidden, spec.vocab, spec.tied) == (30, 576, 49152, True)
    plan = outline_model(file, spec, open_backend(threads=1)).memory(context=128)
    assert 0.13e9 * 4.5 / 8 < plan.weight_bytes < 0.14e9 * 4.5 / 8 + 1e6
    assert held_bytes(file) < 20e6


@pytest.mark.parametrize("type", ["Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q6_K", "Q2_K", "BF16", "F16", "F32"])
def test_random_blocks_are_weights_of_a_sane_size(type: str) -> None:
    elements, block = BLOCKS[type]
    count = max(1, 256 // elements) * 64
    raw = random_blocks(type, count * block)
    values = dequantize(type, raw, (count, elements))
    assert np.isfinite(values).all() and np.abs(values).max() < 0.25 and values.std() > 1e-4


def test_unknown_names_and_types_are_refused() -> None:
    with pytest.raises(ParameterError, match="llama-3-8b"):
        synthetic_model("gpt-9")
    with pytest.raises(ParameterError, match="Q4_K"):
        synthetic_model(next(iter(SHAPES)), "Q9_Z")
