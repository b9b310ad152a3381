"""A small synthetic model, measured: the counted ops are the recorded ones, and the figures hang together."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.bench import Limits, Meter, Settings, Subject, Work, measure, measure_ops
from cutaway.bench.cost import Cost, step_costs, total
from cutaway.bench.report import op_rows, rate_json, rate_row, step_json
from cutaway.bench.synthetic import Shape, synthetic_file
from cutaway.errors import MemoryShortError, ParameterError
from cutaway.formats import BLOCKS

DENSE = Shape("llama", 2, 256, 4, 2, 64, 512, 320, 1e4, tied=True)
EXPERTS = Shape("qwen3moe", 2, 256, 4, 2, 64, 256, 320, 1e4, experts=8, used=2)
QWEN2 = Shape("qwen2", 2, 256, 4, 2, 64, 512, 320, 1e4, tied=True)


def subject(shape: Shape = DENSE, type: str = "Q4_K", **settings: object) -> Subject:
    chosen = Settings(**({"context": 64, "streams": 2, "threads": 1} | settings))  # type: ignore[arg-type]
    return Subject.load("tiny", synthetic_file("tiny", shape, type), chosen)


@pytest.mark.parametrize("shape", [DENSE, EXPERTS, QWEN2])
@pytest.mark.parametrize("type", ["Q4_K", "Q4_0", "Q8_0", "BF16", "F32"])
def test_counted_ops_are_the_recorded_ones(shape: Shape, type: str) -> None:
    loaded = subject(shape, type)
    step = loaded.prompt(40)[0]
    costs = step_costs(loaded.decoder, loaded.layout, step)
    assert [c.op for c in costs] == [loaded.program.name(i) for i in range(len(loaded.program))]
    assert np.isfinite(loaded.run(step).values).all()


def test_a_decode_step_reads_all_weights_once_and_its_context() -> None:
    loaded = subject()
    costs = step_costs(loaded.decoder, loaded.layout, loaded.decoding(47, 2))
    weights = sum(
        w.nbytes
        for layer in loaded.decoder.layers
        for w in (*layer.qkv, layer.output, layer.feed.gate, layer.feed.up, layer.feed.down)  # type: ignore[union-attr]
    )
    pages = 2 * 2 * loaded.layout.token_bytes() * (48 + 1)  # streams, layers; 48 read and one written
    assert total(costs).bytes == weights + loaded.decoder.head.nbytes + pages


def test_operations_of_a_prompt() -> None:
    loaded = subject()
    found = total(step_costs(loaded.decoder, loaded.layout, loaded.prompt(32)[0])).operations
    per_layer = (256 + 2 * 128) * 256 + 256 * 256 + 3 * 512 * 256
    assert found["int8"] == 2 * (32 * 2 * per_layer + 320 * 256)  # the head for the last token only
    assert found["bf16"] == 2 * 4 * 4 * 64 * (32 * 33 // 2)


def test_a_window_is_read_and_no_more() -> None:
    from dataclasses import replace

    loaded = subject()
    layers = tuple(replace(x, attention=replace(x.attention, window=16)) for x in loaded.decoder.layers)
    narrow = replace(loaded.decoder, layers=layers)
    attends = [c for c in step_costs(narrow, loaded.layout, loaded.decoding(47, 2)) if c.op == "attend"]
    assert [c.bytes for c in attends] == [2 * 16 * loaded.layout.token_bytes()] * 2


def test_experts_read_are_those_used_by_one_token_and_nearly_all_by_many() -> None:
    loaded = subject(EXPERTS, context=256)
    one, many = (
        next(c for c in step_costs(loaded.decoder, loaded.layout, step) if c.op == "mix_experts").bytes
        for step in (loaded.decoding(0, 1), loaded.prompt(256)[0])
    )
    experts = loaded.decoder.layers[0].feed
    each = experts.gate[0].nbytes + experts.up[0].nbytes + experts.down[0].nbytes  # type: ignore[union-attr]
    assert one == pytest.approx(2 * each + experts.router.nbytes)  # type: ignore[union-attr]
    assert many == pytest.approx(8 * each + experts.router.nbytes)  # type: ignore[union-attr]


def test_the_larger_of_reading_and_computing_binds() -> None:
    limits = Limits(bandwidth=100, int8=10, bf16=2, f32=4)
    assert Cost("x", "x", 50, {"int8": 10}).floor(limits) == 1.0
    assert Cost("x", "x", 50, {"int8": 10}).binds(limits) == "arithmetic"
    assert Cost("x", "x", 200, {"int8": 10}).binds(limits) == "memory"
    assert Cost("x", "x", 0, {"bf16": 8, "int8": 10}).floor(limits) == 3.0  # bf16 widened: never below float32


def test_rates_come_with_shares_and_limits() -> None:
    loaded = subject()
    works = [Work(tokens=32), Work(streams=1, context=8), Work(streams=2, context=8)]
    rates = measure(loaded, works, rounds=2)
    assert [r.work for r in rates] == works
    for rate in rates:
        assert len(rate.rates) == len(rate.shares) == 2 and rate.share > 0 and rate.rate > 0 and rate.limit > 0
        assert len(rate_row(rate)) == 7 and rate_json(rate)["rate"] == rate.rate


def test_work_beyond_what_was_loaded_is_refused() -> None:
    loaded = subject()
    for work in (Work(tokens=65), Work(streams=3, context=8), Work(streams=1, context=40)):
        with pytest.raises(ParameterError, match="does not fit"):
            measure(loaded, [work], rounds=1)


def test_op_times_add_up() -> None:
    loaded = subject()
    time = measure_ops(loaded, loaded.decoding(8, 2), rounds=2)
    assert sum(op.count for op in time.ops) == len(loaded.program)
    assert [op.seconds for op in time.ops] == sorted((op.seconds for op in time.ops), reverse=True)
    assert time.floor == pytest.approx(sum(op.floor for op in time.ops)) and time.whole > 0
    assert [row[0] for row in op_rows(time)[-2:]] == ["all, one by one", "the step in one call"]
    assert step_json("decode", time)["ops"][0]["seconds"] == time.ops[0].seconds


def test_streams_lie_in_pages_of_their_own() -> None:
    loaded = subject(streams=3)
    (table,) = loaded.tables
    assert table.shape == (3, 4) and len(np.unique(table)) == 12


def test_a_prompt_longer_than_a_step_comes_in_chunks() -> None:
    loaded = subject(context=1100, streams=1)
    steps = loaded.prompt(1100)
    assert [len(s.tokens) for s in steps] == [512, 512, 76]
    assert [list(s.rows) for s in steps] == [[], [], [75]]
    assert np.concatenate([s.positions for s in steps]).tolist() == list(range(1100))


def test_too_large_a_model_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.ops.native.backend.available_memory", lambda: 1000)
    with pytest.raises(MemoryShortError, match=r"for weights, .* for keys and values.* 1.0 kB are available"):
        subject()


@pytest.mark.parametrize("type", ["Q4_K", "Q6_K", "Q4_0", "F16"])
def test_synthetic_tensors_have_the_bytes_of_their_shapes(type: str) -> None:
    file = synthetic_file("tiny", EXPERTS, type)
    for tensor in file.tensors.values():
        elements, block = BLOCKS[tensor.type]
        assert tensor.raw.nbytes == np.prod(tensor.shape) // elements * block
    assert file.tensors["blk.1.ffn_up_exps.weight"].shape == (8, 256, 256)


def test_the_bandwidth_is_that_of_reading_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller buffer would lie in a cache, and the limit would be too high."""
    loaded = subject(context=1024, streams=1)
    sizes: list[int] = []
    monkeypatch.setattr("cutaway.bench.rates.Meter", lambda ops, size: sizes.append(size) or Meter(ops, 1))
    measure(loaded, [Work(tokens=1024), Work(streams=1, context=8)], rounds=1)
    steps = [loaded.prompt(1024), [loaded.decoding(8 + 16, 1)]]
    for size, costs in zip(
        sizes, [[step_costs(loaded.decoder, loaded.layout, s) for s in part] for part in steps], strict=True
    ):
        assert size == int(sum(total(c).bytes for c in costs) / len(costs))
