"""The decoder as a whole: batches, pages that were given back, and that it knows no backend."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.formats import open_model
from cutaway.model import Decoder, decoder, kv_groups, kv_layout, load_decoder, read_spec
from cutaway.ops.protocol import Step
from cutaway.ops.reference_backend import ReferenceBackend

PAGE, PAGES, WINDOW = 4, 12, 6


def test_the_decoder_imports_no_arrays_and_no_backend() -> None:
    tree = ast.parse(Path(decoder.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    ours = {m for m in modules if m and m.startswith("cutaway")}
    assert ours == {"cutaway.model.spec", "cutaway.ops.backend", "cutaway.ops.protocol", "cutaway.ops.rows"}
    assert modules - ours <= {"__future__", "collections.abc", "dataclasses", "typing"}


def test_a_layer_fits_on_a_screen() -> None:
    tree = ast.parse(Path(decoder.__file__).read_text(encoding="utf-8"))
    forward = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward")
    assert (forward.end_lineno or 0) - forward.lineno < 25


@pytest.fixture
def windowed(tiny_model: Callable[..., Any], tmp_path: Path) -> Iterator[Decoder]:
    """A tiny Gemma 3: five window layers to a full one, on the reference backend."""
    sizes = {"vocab_size": 97, "hidden_size": 36, "intermediate_size": 44, "num_attention_heads": 6, "head_dim": 10}
    more = {"num_hidden_layers": 7, "num_key_value_heads": 2, "sliding_window": WINDOW, "pad_token_id": None}
    tiny_model(tmp_path, "Gemma3TextConfig", {**sizes, **more})
    with open_model(tmp_path) as file:
        spec = read_spec(file)
        loaded = load_decoder(file, spec, ReferenceBackend(), context=64)
        loaded.open_cache(kv_layout(spec, pages=(PAGES, PAGES), page_size=PAGE))
        yield loaded


def make_step(parts: list[tuple[list[int], int, tuple[list[int], ...]]]) -> Step:
    """parts: per request its tokens, the position of the first, and its page table in each group."""
    counts = [len(tokens) for tokens, _, _ in parts]
    groups = len(parts[0][2])
    return Step(
        tokens=np.concatenate([np.array(tokens, np.int32) for tokens, _, _ in parts]),
        positions=np.concatenate([np.arange(start, start + len(t), dtype=np.int32) for t, start, _ in parts]),
        request_of=np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        page_tables=tuple(np.array([tables[g] for _, _, tables in parts], np.int32) for g in range(groups)),
        rows=np.arange(sum(counts), dtype=np.int32),
    )


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_mixed_batch_equals_each_request_alone(windowed: Decoder) -> None:
    assert [g.window for g in kv_groups(windowed.spec)] == [None, WINDOW]
    step_function: Any = windowed.step_function()
    run = lambda s: step_function(s).values  # noqa: E731
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 97, 14).tolist(), rng.integers(0, 97, 9).tolist()
    pages_one, pages_two = ([0, 1, 2, 3], [4, 5, 6, 7]), ([8, 9, 10, -1], [11, 0, 1, -1])
    alone = run(make_step([(one, 0, pages_one)])).copy(), run(make_step([(two, 0, pages_two)])).copy()
    run(make_step([(one[:13], 0, pages_one)]))
    mixed = run(make_step([(one[13:], 13, pages_one), (two, 0, pages_two)]))
    np.testing.assert_allclose(mixed[0], alone[0][13], rtol=0, atol=1e-4)
    np.testing.assert_allclose(mixed[1:], alone[1], rtol=0, atol=1e-4)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_window_layers_do_without_pages_that_left_the_window(windowed: Decoder) -> None:
    step_function: Any = windowed.step_function()
    run = lambda s: step_function(s).values  # noqa: E731
    tokens = np.random.default_rng(1).integers(0, 97, 16).tolist()
    whole = run(make_step([(tokens, 0, ([0, 1, 2, 3], [4, 5, 6, 7]))])).copy()
    run(make_step([(tokens[:15], 0, ([0, 1, 2, 3], [4, 5, 6, 7]))]))
    last = run(make_step([(tokens[15:], 15, ([0, 1, 2, 3], [-1, -1, 6, 7]))]))  # sees 10 to 15 there
    np.testing.assert_allclose(last[0], whole[15], rtol=0, atol=1e-4)
