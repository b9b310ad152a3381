"""Models without a file: their sizes, mixes of weight types, and the bytes that are known of the real ones."""

from __future__ import annotations

import math

import pytest

from cutaway.errors import FormatError, ParameterError
from cutaway.model import ModelSpec
from cutaway.ops.backends import open_backend
from cutaway.planner import outline_model
from cutaway.planner.devices import active_share, device_need, parse_device, smallest_size
from cutaway.planner.memory import MemoryPlan
from cutaway.planner.mixes import MIXES, mix_named
from cutaway.planner.named_tensors import outline_from_spec
from cutaway.planner.shapes import SHAPES, shape_spec, with_sizes


def plan(spec: ModelSpec, mix: str = "Q4_K_M", *, context: int = 4096, requests: int = 1) -> MemoryPlan:
    file = outline_from_spec(spec, mix_named(mix))
    return outline_model(file, spec, open_backend(threads=1)).memory(context=context, requests=requests)


@pytest.mark.parametrize(
    ("name", "billions", "file_gb"),
    [
        ("llama-3-8b", 8.03, 4.92), ("llama-3.1-70b", 70.55, 42.52), ("qwen2.5-7b", 7.62, 4.68),
        ("qwen2.5-72b", 72.71, 47.42), ("phi-3-mini", 3.82, 2.39), ("mixtral-8x7b", 46.7, 28.4),
        ("gemma-3-27b", 27.0, 16.5), ("llama-3.2-1b", 1.24, 0.81),
    ],
)  # fmt: skip
def test_parameters_and_file_are_those_of_the_published_models(name: str, billions: float, file_gb: float) -> None:
    """Sizes of the Q4_K_M files as they are published, with tokenizers of up to 10 MB in them."""
    file = outline_from_spec(shape_spec(name), mix_named("Q4_K_M"))
    assert sum(math.prod(t.shape) for t in file.tensors.values()) / 1e9 == pytest.approx(billions, rel=0.005)
    assert sum(t.raw.nbytes for t in file.tensors.values()) / 1e9 == pytest.approx(file_gb, rel=0.05)


def test_grouped_heads_decide_the_cache() -> None:
    llama = plan(shape_spec("llama-3-8b"))
    assert llama.token_bytes == 131_072 and llama.kv_bytes == pytest.approx(0.537e9, rel=0.001)
    assert plan(shape_spec("llama-3.1-70b"), context=32768).kv_bytes == pytest.approx(10.74e9, rel=0.001)
    assert plan(with_sizes(shape_spec("llama-3.1-70b"), ["kv_heads=64"])).token_bytes == 8 * 327_680
    assert plan(shape_spec("qwen-14b")).token_bytes == 5 * plan(shape_spec("qwen3-14b")).token_bytes


def test_windows_are_not_counted_as_whole_contexts() -> None:
    spec = shape_spec("gemma-3-27b")
    whole = with_sizes(spec, ["window=131072"])
    assert plan(spec, context=131_072).kv_bytes < 0.25 * plan(whole, context=131_072).kv_bytes


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_can_be_planned(name: str) -> None:
    spec = shape_spec(name)
    made = plan(spec, "Q8_0", context=256)
    assert made.total > 8 * made.kv_bytes > 0
    assert 0 < active_share(spec) <= 1


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", ["qwen2.5-0.5b", "qwen3-30b-a3b"])
def test_every_mix_fits_rows_of_every_length(name: str, mix: str) -> None:
    """Rows of 896 are no whole blocks of 256: another type stands in, as in published files."""
    spec = with_sizes(shape_spec(name), ["layers=8"])
    assert plan(spec, mix, context=64).weight_bytes > 0


def test_sizes_that_are_none() -> None:
    spec = shape_spec("llama-3-8b")
    for wrong in ("kv_heads", "kv_heads=-1", "colour=3", "layers=0", "layers=5000", "experts=4", "kv_heads=²"):
        with pytest.raises(ParameterError, match="set"):
            with_sizes(spec, [wrong])
    with pytest.raises(FormatError, match="multiple"):
        with_sizes(spec, ["kv_heads=5"])
    assert with_sizes(spec, ["layers=3"]).windows == (None,) * 3
    with pytest.raises(ParameterError, match="llama-3-8b"):
        shape_spec("gpt-9")
    with pytest.raises(ParameterError, match="Q4_K_M"):
        mix_named("Q9")


def test_devices() -> None:
    spec = shape_spec("llama-3.1-70b")
    made = plan(spec)
    two, seconds = device_need(made, spec, parse_device("2x24gb"), 0)
    assert two.fits and two.device.total == 48 * 10**9 and seconds is None  # 42.5 GB of weights, 1.3 of keys and values
    assert not device_need(plan(spec, context=32768), spec, parse_device("2x24gb"), 0)[0].fits
    assert not device_need(made, spec, parse_device("24gb"), 0)[0].fits
    assert device_need(made, spec, parse_device("h100"), 0)[0].fits
    one = device_need(made, spec, parse_device("a100-80g"), 0)[1]
    assert one == pytest.approx(42.5e9 / (0.6 * 2039e9), rel=0.02)
    for wrong in ("", "x24gb", "0x24gb", "gpu", "24", "1e9gb"):
        with pytest.raises(ParameterError, match="device"):
            parse_device(wrong)
    assert (smallest_size(23 * 10**9), smallest_size(10**13)) == ("24 GB", "more than 1 TB")
