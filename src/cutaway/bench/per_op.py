"""The time of a step by operation: every operation of the recorded step is run and timed alone, next to its floor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from cutaway.bench.cost import Cost, step_costs, total
from cutaway.bench.limits import Limits, Meter, middle
from cutaway.bench.subject import Subject
from cutaway.ops.protocol import Step


@dataclass(frozen=True, slots=True)
class OpTime:
    """All ops of one label in a step. seconds: measured, together. cost: theirs, together."""

    cost: Cost
    count: int
    seconds: float
    floor: float
    binds: str


@dataclass(frozen=True, slots=True)
class StepTime:
    """ops: slowest first. whole: seconds of the step in one call, as it is really run. floor: the ops' floors' sum."""

    ops: tuple[OpTime, ...]
    whole: float
    limits: Limits
    tokens: int

    @property
    def floor(self) -> float:
        return sum(op.floor for op in self.ops)


def measure_ops(subject: Subject, step: Step, *, rounds: int = 7) -> StepTime:
    """Medians over rounds; each round takes the limits, the whole step and then every op alone."""
    costs = step_costs(subject.decoder, subject.layout, step)
    names = [subject.program.name(i) for i in range(len(subject.program))]
    assert [c.op for c in costs] == names, "the counted ops are not the recorded ones"
    meter = Meter(subject.backend, int(total(costs).bytes))
    limits, wholes = [], []
    seconds: list[list[float]] = [[] for _ in costs]
    subject.run(step)
    for _ in range(rounds):
        limits.append(meter.once())
        subject.run(step)
        wholes.append(_timed(partial(subject.run, step)))
        for op, times in enumerate(seconds):
            times.append(_timed(partial(subject.run_op, step, op)))
    found = middle(limits)
    return StepTime(_grouped(costs, [median(t) for t in seconds], found), median(wholes), found, len(step.tokens))


def _grouped(costs: list[Cost], seconds: list[float], limits: Limits) -> tuple[OpTime, ...]:
    by_label: dict[str, list[int]] = {}
    for op, cost in enumerate(costs):
        by_label.setdefault(cost.label, []).append(op)
    made = []
    for label, ops in by_label.items():
        together = replace(total([costs[i] for i in ops], label), op=costs[ops[0]].op)
        made.append(
            OpTime(together, len(ops), sum(seconds[i] for i in ops), together.floor(limits), together.binds(limits))
        )
    return tuple(sorted(made, key=lambda op: -op.seconds))


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
