"""The table of benchmarks/compare.py: its rows and what counts as met."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cutaway.bench import Work


@pytest.fixture(scope="module")
def goals() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "goals.py"
    spec = importlib.util.spec_from_file_location("benchmark_goals", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_rows_have_names_of_their_own_and_a_goal(goals: ModuleType) -> None:
    assert len({row.name for row in goals.ROWS}) == len(goals.ROWS)
    assert all(row.share or row.ratio for row in goals.ROWS)


@pytest.mark.parametrize(
    ("share", "ratio", "verdict"),
    [(0.5, 2.0, "no"), (0.8, 1.7, "no"), (0.8, 1.8, "yes"), (0.95, 1.8, "aim"), (0.95, None, "")],
)
def test_what_counts_as_met(goals: ModuleType, share: float, ratio: float | None, verdict: str) -> None:
    row = goals.Row("x", "smollm2", Work(streams=1), (0.75, 0.90), (1.8, None))
    assert row.verdict(share, ratio) == verdict
    assert (row.at_least(), row.aim()) == ("75%, 1.8×", "90%")


def test_a_row_without_ratio_needs_no_peer(goals: ModuleType) -> None:
    row = goals.Row("x", "llama-3-8b", Work(streams=1), (0.85, 0.92))
    assert row.synthetic and row.verdict(0.9, None) == "yes"


def test_on_avx2_the_goals_are_of_another_peer(goals: ModuleType) -> None:
    decoding, prompt = (
        goals.Row("x", "smollm2", work, (0.75, 0.90), (1.8, None)).on_avx2()
        for work in (Work(streams=1, context=128), Work(tokens=512))
    )
    assert (decoding.at_least(), prompt.at_least(), prompt.aim()) == ("1×", "1.5×", "")
    assert [prompt.verdict(0.1, ratio) for ratio in (1.4, 1.5, None)] == ["no", "aim", ""]
