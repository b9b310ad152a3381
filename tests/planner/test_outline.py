"""The plan's bytes are those that the allocator counts once the model is loaded, and no step takes more."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from cutaway.bench.synthetic import Shape, synthetic_file
from cutaway.formats import ModelFile
from cutaway.model import Decoder, load_decoder
from cutaway.native import _native
from cutaway.ops.backends import open_backend
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import KVLayout, KVType, Step
from cutaway.planner import LoadOptions, outline_model, plan_load
from cutaway.planner.outline import position_bytes
from tiny import SETS

DENSE = Shape("qwen2", 2, 192, 6, 2, 32, 320, 400, 1e6)
EXPERTS = Shape("qwen3moe", 3, 128, 4, 1, 32, 96, 300, 1e6, experts=8, used=3)
TIED = Shape("llama", 2, 64, 4, 4, 16, 128, 777, 1e5, tied=True)
KINDS: list[tuple[Shape, str]] = [(DENSE, "Q4_K"), (DENSE, "BF16"), (EXPERTS, "Q8_0"), (TIED, "F32"), (TIED, "Q4_0")]
WEIGHTS, PAGES, VALUES, SHARED, WORKERS = range(5)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize(("shape", "type"), KINDS)
@pytest.mark.parametrize("types", [("bf16", "bf16"), ("f32", "int8")])
def test_the_plan_is_what_the_allocator_counts(
    shape: Shape, type: str, types: tuple[KVType, KVType], instruction_set: str
) -> None:
    gc.collect()
    before = _native.held_bytes()
    file = synthetic_file("tiny", shape, type)
    backend = NativeBackend(threads=2, instruction_set=instruction_set, max_tokens=160, max_rows=40)
    plan = plan_load(file, LoadOptions(300, 2, *types), backend)
    decoder = load_decoder(file, plan.spec, backend, context=plan.context)
    decoder.open_cache(plan.layout)
    run = decoder.step_function()
    assert held(before, WEIGHTS) == sum(w.packed for w in plan.memory.weights)
    assert held(before, PAGES) == plan.memory.kv_bytes
    assert held(before, VALUES) == plan.memory.step.values
    assert held(before, SHARED) == plan.memory.step.shared
    # Threads belong to all models of the process; a larger one before keeps what it took.
    assert _native.held_bytes()[WORKERS] >= plan.memory.step.workers > 0
    loaded = _native.held_bytes()
    for step in steps(plan.layout, plan.context, plan.spec.vocab):
        run(step)
    assert _native.held_bytes() == loaded


def held(before: list[int] | tuple[int, ...], owner: int) -> int:
    return int(_native.held_bytes()[owner] - before[owner])


def steps(layout: KVLayout, context: int, vocab: int) -> list[Step]:
    """Prompts of all sizes up to the largest step, the end of the context, and two requests at once."""
    width = -(-context // layout.page_size)
    tables = tuple(np.arange(2 * width, dtype=np.int32).reshape(2, width) for _ in layout.groups)

    def step(runs: list[tuple[int, int]], rows: int) -> Step:
        positions = np.concatenate([np.arange(a, b) for a, b in runs]).astype(np.int32)
        of = np.concatenate([np.full(b - a, r) for r, (a, b) in enumerate(runs)]).astype(np.int32)
        chosen = np.arange(len(positions) - min(rows, len(positions)), len(positions), dtype=np.int32)
        return Step(positions % vocab, positions, of, tables, chosen)

    one = [step([(0, n)], 40) for n in (1, 2, 3, 7, 20, 21, 64, 160)]
    return [*one, step([(160, 300)], 1), step([(0, 80), (0, 80)], 40), step([(299, 300), (150, 151)], 2)]


def test_layers_of_experts_share_their_operands() -> None:
    """They run one after another. Each with its own took 5 GB for a model of 48 such layers."""
    sizes = {}
    for layers in (1, 3):
        shape = Shape("qwen3moe", layers, 128, 4, 1, 32, 96, 300, 1e6, experts=8, used=3)
        memory = outline_of_shape(shape, "Q8_0", open_backend(threads=1)).memory(context=64)  # type: ignore[arg-type]
        sizes[layers] = memory.step.values
    assert sizes[3] < sizes[1] + 160 * 128 * 4 * 8


def outline_of_shape(shape: Shape, type: str, backend: NativeBackend):  # type: ignore[no-untyped-def]
    from cutaway.model import read_spec

    file = synthetic_file("tiny", shape, type)
    return outline_model(file, read_spec(file), backend)


@pytest.mark.parametrize("shape", [DENSE, EXPERTS])
def test_tables_of_positions_are_as_large_as_counted(shape: Shape) -> None:
    file = synthetic_file("tiny", shape, "Q8_0")
    plan = plan_load(file, LoadOptions(777, 1), open_backend(threads=1))
    decoder = load_decoder(file, plan.spec, open_backend("reference"), context=777)
    assert position_bytes(plan.spec, 777) == table_bytes(decoder)
    assert plan.memory.positions == 2 * table_bytes(decoder)  # the decoder's arrays, and the recorded ops'


def table_bytes(decoder: Decoder) -> int:
    ropes = {id(layer.rope): layer.rope for layer in decoder.layers if layer.rope is not None}
    return sum(rope.cos.nbytes + rope.sin.nbytes for rope in ropes.values())


def test_an_outline_reads_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data may be absent: a header is enough."""
    file = synthetic_file("tiny", TIED, "Q4_0")
    whole = outline_model(file, plan_load(file, LoadOptions(64), open_backend(threads=1)).spec, open_backend(threads=1))
    bare = without_values(file)
    same = outline_model(bare, whole.spec, open_backend(threads=1))
    assert same.memory(context=64) == whole.memory(context=64)


def without_values(file: ModelFile) -> ModelFile:
    from cutaway.formats import without_data

    return without_data(file)
