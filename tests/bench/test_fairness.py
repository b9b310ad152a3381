"""The scheduler's rule beside an even share and the rule before it, in virtual time (benchmarks/fairness.py)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from cutaway.bench.virtual_time import Ask, Clock
from cutaway.cache import GroupSize, PageTables
from cutaway.engine.cost import CostModel
from cutaway.engine.scheduler import Limits, Scheduler


@pytest.fixture(scope="module")
def fairness() -> Any:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "fairness.py"
    spec = importlib.util.spec_from_file_location("benchmark_fairness", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(11))
def test_slowdowns_are_bounded_by_an_even_share_and_short_prompts_lose_little(fairness: Any, number: int) -> None:
    case = fairness.CASES[number]
    before, even, now = (fairness.judge(fairness.RULES[name], case) for name in ("before", "even share", "now"))
    assert now.slowdown[1] <= 2 * even.slowdown[1]
    assert now.short <= 1.5 * before.short
    assert now.rate >= 0.97 * before.rate


def test_every_case_is_held(fairness: Any) -> None:
    assert len(fairness.CASES) == 11
    assert {len(load) for load in fairness.LOADS.values()} == {240}


def test_a_long_prompt_among_short_ones_has_its_first_token_in_half_the_time(fairness: Any) -> None:
    """729 tokens among 16 clients: measured 56 s on a server before; the virtual clock says 62 of that rule."""
    case = fairness.Case("qwen", "one_long", 16)
    before, even, now = (fairness.judge(fairness.RULES[name], case) for name in ("before", "even share", "now"))
    assert 50 < before.long < 75
    assert now.long < before.long / 2 and now.long < even.long


def scheduler() -> Scheduler:
    limits = Limits(max_requests=2, step_us=50_000, long_us=125_000)
    return Scheduler(PageTables([GroupSize(None, 64)], 16), CostModel(10_000, 1_000, 0.0), limits)


def test_the_clock_goes_by_the_cost_model() -> None:
    (served,) = Clock(scheduler(), [Ask(30, 3)]).run()
    assert (served.arrived, served.wait, served.gaps) == (0, 40_000, [11_000, 11_000])


def test_clients_ask_one_request_after_another_and_arrivals_keep_their_time() -> None:
    first, second = Clock(scheduler(), [Ask(30, 3), Ask(30, 1)], clients=1).run()
    assert (second.arrived, second.tokens) == (first.tokens[-1], [first.tokens[-1] + 40_000])
    first, second = Clock(scheduler(), [Ask(30, 1, 5_000), Ask(30, 1, 500_000)]).run()
    assert [first.arrived, *first.tokens] == [5_000, 45_000]
    assert [second.arrived, *second.tokens] == [500_000, 540_000]
