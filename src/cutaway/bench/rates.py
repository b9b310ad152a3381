"""Rates of prompts, decoding and batches, each round next to the machine's limits at that moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from cutaway.bench.cost import Cost, step_costs, total
from cutaway.bench.limits import Limits, Meter, middle
from cutaway.bench.subject import Subject
from cutaway.errors import ParameterError
from cutaway.ops.protocol import Step

ROUND_SECONDS = 0.25  # of work between two measurements of the limits
MOST_STEPS = 32


@dataclass(frozen=True, slots=True)
class Work:
    """The prefill of a prompt (streams 0), or decoding in several streams after a context."""

    tokens: int = 0
    streams: int = 0
    context: int = 0

    @property
    def label(self) -> str:
        if not self.streams:
            return f"prompt of {self.tokens}"
        return f"decode, {self.streams} stream{'s' if self.streams > 1 else ''}, context {self.context}"

    @property
    def reach(self) -> int:
        """Tokens of context that it needs."""
        return self.context + MOST_STEPS if self.streams else self.tokens


@dataclass(frozen=True, slots=True)
class Rate:
    """The result of one workload. rates: tokens per second, by round. cost: of `tokens` tokens. shares: of the floor,
    by round, with that round's limits."""

    work: Work
    rates: tuple[float, ...]
    shares: tuple[float, ...]
    limits: Limits
    cost: Cost
    tokens: int

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def share(self) -> float:
        return median(self.shares)

    @property
    def limit(self) -> float:
        """The maximum tokens per second."""
        return self.tokens / self.cost.floor(self.limits)


@dataclass(slots=True)
class _Running:
    """A workload between its rounds."""

    work: Work
    subject: Subject
    steps: list[Step]
    cost: Cost
    count: int
    rates: list[float]
    limits: list[Limits]

    @property
    def step_bytes(self) -> int:
        """Bytes that one step reads; a pass of the bandwidth measurement reads as many."""
        return int(self.cost.bytes if self.work.streams else self.cost.bytes / len(self.steps))

    def round(self, clock: Callable[[], float]) -> None:
        tokens, begin = 0, clock()
        for step in self.steps[: self.count] if self.work.streams else self.steps:
            self.subject.run(step)
            tokens += len(step.tokens)
        self.rates.append(tokens / (clock() - begin))


def measure(
    subject: Subject, works: Sequence[Work], *, rounds: int = 5, clock: Callable[[], float] = time.perf_counter
) -> list[Rate]:
    """Every workload and the limits in turn, `rounds` times. The first round only warms up. Raises ParameterError."""
    running = [_prepare(subject, work) for work in works]
    meters = {id(one): Meter(subject.backend, one.step_bytes) for one in running}
    for one in running:
        _size(one, clock)
    for _ in range(rounds):
        for one in running:
            one.limits.append(meters[id(one)].once())
            one.round(clock)
    return [_rate(one) for one in running]


def _prepare(subject: Subject, work: Work) -> _Running:
    if work.reach > subject.settings.context or work.streams > subject.settings.streams:
        raise ParameterError(
            f"{work.label} does not fit {subject.settings.streams} streams of {subject.settings.context} tokens"
        )
    if work.streams:
        steps = [subject.decoding(work.context + i, work.streams) for i in range(MOST_STEPS)]
        cost = total(step_costs(subject.decoder, subject.layout, steps[len(steps) // 2]))
    else:
        steps = subject.prompt(work.tokens)
        cost = total([total(step_costs(subject.decoder, subject.layout, step)) for step in steps])
    return _Running(work, subject, steps, cost, len(steps), [], [])


def _size(one: _Running, clock: Callable[[], float]) -> None:
    """Run once to warm up, and to find the number of steps of a round."""
    begin = clock()
    one.round(clock)
    one.count = max(2, min(MOST_STEPS, int(ROUND_SECONDS * one.count / (clock() - begin)) + 1))
    one.rates.clear()


def _rate(one: _Running) -> Rate:
    tokens = one.work.streams or one.work.tokens
    shares = tuple(r * one.cost.floor(limits) / tokens for r, limits in zip(one.rates, one.limits, strict=True))
    return Rate(one.work, tuple(one.rates), shares, middle(one.limits), one.cost, tokens)
