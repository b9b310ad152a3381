"""The planner's sums, held against the layout and the packing rule that they come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutaway.errors import MemoryShortError
from cutaway.formats import open_model
from cutaway.model import kv_layout, read_spec
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.outline import Scratch
from cutaway.planner import check_memory, kv_pages, outline_model, plan_rows, readable_bytes
from cutaway.planner.memory import MemoryPlan


def plan_of(path: Path, **options: object) -> MemoryPlan:
    backend = NativeBackend(threads=1)
    with open_model(path) as file:
        outline = outline_model(file, read_spec(file), backend)
    return outline.memory(**{"context": 1024, **options})  # type: ignore[arg-type]


@pytest.mark.models
def test_smollm2(smollm2_path: Path) -> None:
    plan = plan_of(smollm2_path)
    assert plan.token_bytes == 23_040  # 30 layers, 3 heads of 64, keys and values, two bytes each
    assert plan.kv_bytes == 1024 * 23_040 + 64  # the line after the pool
    # Tied: the embedding is packed once as the head, and stays mapped as the table: all of the file is packed.
    assert sum(w.packed for w in plan.weights) == pytest.approx(sum(w.file for w in plan.weights), rel=0.02)
    assert plan.mapped > 0 and plan.total > plan.weight_bytes + plan.kv_bytes
    half = plan_of(smollm2_path, value_type="int8")
    assert half.kv_bytes == 1024 * 30 * 3 * (128 + 64 + 4) + 64


@pytest.mark.models
def test_an_untied_table_is_not_packed(qwen_path: Path) -> None:
    plan = plan_of(qwen_path)
    assert plan.token_bytes == 12_288
    files = qwen_path.stat().st_size
    # The head is its own tensor, and the table is not packed.
    assert files - plan.mapped == pytest.approx(sum(w.file for w in plan.weights), rel=0.02)


@pytest.mark.models
def test_windows_keep_what_they_need(gemma_path: Path) -> None:
    with open_model(gemma_path) as file:
        spec = read_spec(file)
    short, long = (kv_pages(spec, context=c, page_size=16) for c in (512, 32768))
    assert short == (32, 32)
    assert long == (2048, (512 + 512) // 16 + 2)
    assert kv_pages(spec, context=32768, page_size=16, requests=4) == tuple(4 * p for p in long)
    layout = kv_layout(spec, pages=long, page_size=16)
    assert plan_of(gemma_path, context=32768).kv_bytes == layout.total_bytes() + 2 * 64


@pytest.mark.models
def test_rows_add_up(smollm2_path: Path) -> None:
    rows = plan_rows(plan_of(smollm2_path))
    assert rows[-1][0] == "total"
    assert sum(count for _, _, count in rows[:-1]) == rows[-1][2]


@pytest.mark.models
def test_too_little_memory_gives_both_numbers(smollm2_path: Path) -> None:
    plan = plan_of(smollm2_path)
    check_memory(plan, plan.total)
    check_memory(plan, None)
    with pytest.raises(MemoryShortError, match=rf"{plan.total} bytes .* {plan.total - 1} "):
        check_memory(plan, plan.total - 1)
    assert replace(plan, step=Scratch(0, 0, 0, 0)).total == plan.total - plan.scratch


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (98_362_432, "98.4 MB"), (491_400_064, "491 MB")],
)
def test_readable_bytes(count: int, text: str) -> None:
    assert readable_bytes(count) == text
