"""Who waits how long for a first token: the scheduler's rule, the one before it and an even share, in virtual time.

    python benchmarks/fairness.py [--json]

Nothing is measured here but rules: the engine's scheduler plans each step and a cost model says how long it takes
(cutaway.bench.virtual_time). The slowdown of a request is its time to the first token over what it takes alone. The
loads in loads.json are lengths of prompts and answers in tokens. `chats`: log-normal, as `cutaway bench serve` draws
them (half of the prompts under 90 tokens, one in ten over 400). `mixed`: one prompt in eight is long (median 729), the
others are short (24). `one_long`: one in sixteen has 729 tokens. `gaps`: between two arrivals, exponential, mean
1,000.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cutaway.bench.virtual_time import Ask, Clock, Served
from cutaway.cache import GroupSize, PageTables
from cutaway.engine.cost import CostModel, pairs
from cutaway.engine.scheduler import Limits, Scheduler

# Microseconds of a step, a token, a pair. Two cores: Qwen2.5-Coder-0.5B, SmolLM2-135M, a model of 8 billion weights.
COSTS = {"qwen": (18_000, 4_500, 0.35), "smollm2": (7_000, 1_600, 0.3), "8b": (180_000, 40_000, 1.0)}
LOADS: dict[str, list[list[int]]] = json.loads((Path(__file__).parent / "loads.json").read_text("ascii"))
PAGES, PAGE_SIZE = 1 << 14, 16


class ShortestFirst(Scheduler):
    """The rule until November 2026: the smallest due first, and a quarter of the short step for the oldest prompt."""

    def _grants(self) -> dict[int, int]:
        tokens = self.limits.max_tokens
        quick, time = self._times()
        oldest = next((work for work in self.running if work.due > 1 or len(work.tokens) == work.prompt), None)
        kept = quick // 4
        grants: dict[int, int] = {}
        for rank, work in enumerate(sorted(self.running, key=lambda work: work.due)):
            share, kept = (max(time, kept), 0) if work is oldest else (time - kept, kept)
            most = min(work.due, tokens - (len(self.running) - rank - 1), self.cost.affordable(share, work.computed))
            least = work is oldest or len(work.tokens) > work.prompt
            count = grants[work.id] = max(int(least), most)
            tokens -= count
            spent = self.cost.predict(count, pairs(work.computed, count)) - self.cost.base
            quick, time = quick - spent, time - spent
            if 1 < count == work.due:
                time = min(time, quick)
        return grants


class SharedEvenly(Scheduler):
    """Every prompt has in each step what a token of an answer takes alone, or its part of what answers leave."""

    def _grants(self) -> dict[int, int]:
        answers = [work for work in self.running if not work.reads]
        prompts = [work for work in self.running if work.reads]
        grants = {work.id: 1 for work in answers}
        spent = sum(self.cost.predict(1, work.computed + 1) - self.cost.base for work in answers)
        tokens = self.limits.max_tokens - len(answers)
        for rank, work in enumerate(prompts):
            share = max(self.cost.predict(1, 1), (self._times()[1] - spent) // len(prompts))
            most = min(work.due, tokens - (len(prompts) - rank - 1))
            grants[work.id] = max(1, min(most, self.cost.affordable(share, work.computed)))
            tokens -= grants[work.id]
        return grants


RULES: dict[str, type[Scheduler]] = {"before": ShortestFirst, "even share": SharedEvenly, "now": Scheduler}


@dataclass(frozen=True, slots=True)
class Case:
    """clients: how many ask, each one request after another; 0: requests come at their own time, `every` so many
    milliseconds on the mean. slots: requests that run at once."""

    cost: str
    load: str
    clients: int
    slots: int = 16
    every: int = 0

    @property
    def label(self) -> str:
        who = f"{self.clients} clients, {self.slots} at once" if self.clients else f"one in {self.every / 1e3:g} s"
        return f"{self.cost}, {self.load}, {who}"


CASES = [
    Case("qwen", "one_long", 16), Case("qwen", "mixed", 16), Case("qwen", "chats", 16),
    Case("qwen", "one_long", 64), Case("qwen", "mixed", 64, 64), Case("qwen", "chats", 64, 64),
    Case("qwen", "mixed", 0, 16, 1_100), Case("qwen", "chats", 0, 16, 2_200),
    Case("smollm2", "mixed", 16), Case("smollm2", "chats", 16), Case("8b", "mixed", 16),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """slowdown: median and 99th percentile over all. short, long: median seconds to the first token of prompts up to
    100 and above 400 tokens. gap: 99th percentile between two tokens, seconds. rate: tokens a second, prompts' too."""

    slowdown: tuple[float, float]
    short: float
    long: float
    gap: float
    rate: float


def scheduler(rule: type[Scheduler], case: Case) -> Scheduler:
    limits = Limits(case.slots, 512, 64, step_us=50_000, long_us=125_000)
    return rule(PageTables([GroupSize(None, PAGES)], PAGE_SIZE), CostModel(*COSTS[case.cost]), limits)


@cache
def alone(cost: str, prompt: int) -> int:
    """Microseconds to the first token of a prompt that has no company."""
    return Clock(scheduler(Scheduler, Case(cost, "", 1)), [Ask(prompt, 1)]).run()[0].wait


def judge(rule: type[Scheduler], case: Case) -> Verdict:
    at, asks = 0, []
    for (prompt, answer), gap in zip(LOADS[case.load], LOADS["gaps"], strict=True):
        at += gap * case.every if not case.clients else 0  # type: ignore[operator]
        asks.append(Ask(prompt, answer, at))
    clock = Clock(scheduler(rule, case), asks, case.clients or None)
    return verdict(clock.run(), clock.now, case.cost)


def verdict(served: Sequence[Served], end: int, cost: str) -> Verdict:
    slowdowns = [s.wait / alone(cost, s.ask.prompt) for s in served]
    return Verdict(
        (statistics.median(slowdowns), percentile(slowdowns, 99)),
        statistics.median(s.wait for s in served if s.ask.prompt <= 100) / 1e6,
        statistics.median(s.wait for s in served if s.ask.prompt > 400) / 1e6,
        percentile([gap for s in served for gap in s.gaps], 99) / 1e6,
        sum(s.ask.prompt + s.ask.answer for s in served) / end * 1e6,
    )


def percentile(values: Sequence[float], which: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[which - 1]


def main() -> None:
    found = {(case.label, name): judge(rule, case) for case in CASES for name, rule in RULES.items()}
    if "--json" in sys.argv[1:]:
        print(json.dumps([{"case": c, "rule": r, "slowdown": v.slowdown, "short": v.short, "long": v.long,
                           "gap": v.gap, "rate": v.rate} for (c, r), v in found.items()], indent=1))  # fmt: skip
        return
    print("| load | rule | slowdown p50 | p99 | short p50 (s) | long p50 (s) | between tokens p99 (ms) | tokens/s |")
    print("|---|---|---|---|---|---|---|---|")
    for (case, rule), v in found.items():
        print(f"| {case} | {rule} | {v.slowdown[0]:.1f} | {v.slowdown[1]:.1f} | {v.short:.2f} | {v.long:.1f} "
              f"| {1e3 * v.gap:.0f} | {v.rate:.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
