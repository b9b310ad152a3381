"""Where the milliseconds of a request's steps go, op by op: its text is computed again with the steps run in parts.

A second run, behind a key of its own so that nothing is found in the cache: the prompt in the chunks that the engine
makes of it, then a few steps of the answer at places spread over it. Each op is timed alone; the bits are the same.
What a step takes in one call is less by what it costs to go from op to op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from cutaway.assemble import Engine
from cutaway.bench.cost import Cost, step_costs
from cutaway.engine import Finished, Inside
from cutaway.errors import UnsupportedError
from cutaway.ops.native.recording import RecordedStep
from cutaway.ops.protocol import Step
from cutaway.sampling import SamplingParams

PLACES = 6
"""Contexts at which steps of the answer are looked at."""
REPEATS = 3
"""Steps at each of them; the median counts."""


@dataclass(frozen=True, slots=True)
class TimedOp:
    """One op of a step. layer: from 0; None before the first layer and behind the last. began: seconds on the clock of
    `perf_counter`. cost: bytes and operations that were counted."""

    name: str
    layer: int | None
    began: float
    seconds: float
    cost: Cost


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step op by op. start: position of its first token; tokens: how many; rows: of logits."""

    start: int
    tokens: int
    rows: int
    ops: tuple[TimedOp, ...]

    @property
    def context(self) -> int:
        """Tokens that its last token sees, itself included."""
        return self.start + self.tokens

    @property
    def seconds(self) -> float:
        return sum(op.seconds for op in self.ops)


@dataclass(frozen=True, slots=True)
class OpTimes:
    """prompt: the steps that read it. answer: one step of one token at each place, ascending. left_out: steps that were
    not ours alone because other requests ran, and were not counted."""

    prompt: tuple[TimedStep, ...]
    answer: tuple[TimedStep, ...]
    left_out: int


def op_times(engine: Engine, prompt: Sequence[int], answer: Sequence[int], *, places: int = PLACES) -> OpTimes:
    """Compute a request's text again, its ops timed. It takes about as long as reading prompt and answer, and a few
    tokens more; other requests of the engine go on beside it, their steps in parts, too.

    Raises UnsupportedError for a backend whose steps have no ops to be run alone.
    """
    inside = engine.inside
    if inside is None or not isinstance(inside.run, RecordedStep):
        raise UnsupportedError("the ops of a step are only known of the native backend")
    text, key = [*prompt, *answer], object()
    last = min(len(text), engine.context - REPEATS - 1)
    ends = _spread(min(len(prompt), last), last, places)
    params = SamplingParams(temperature=0, max_tokens=1 + REPEATS, ignore_eos=True, speculate="off")
    read: list[TimedStep] = []
    found: list[TimedStep] = []
    left_out = 0
    for number, end in enumerate(ends):
        with _watched(inside) as seen:
            for event in engine.submit(text[:end], params, key=key):
                if isinstance(event, Finished) and event.error is not None:
                    raise event.error
        ours = [(step, marks) for step, marks in seen if _is_ours(step, text, end)]
        left_out += len(seen) - len(ours)
        steps = [_timed(inside, step, marks) for step, marks in ours]
        read += [step for step in steps if number == 0 and step.context <= end]
        if single := [step for step in steps if step.start >= end]:
            found.append(_middle(single))
    return OpTimes(tuple(read), tuple(found), left_out)


def _spread(first: int, last: int, places: int) -> list[int]:
    """At most so many lengths from the first to the last, evenly."""
    steps = max(1, min(places - 1, last - first))
    return sorted({first + (last - first) * n // steps for n in range(steps + 1)})


@contextmanager
def _watched(inside: Inside) -> Iterator[list[tuple[Step, list[float]]]]:
    assert isinstance(inside.run, RecordedStep)
    seen: list[tuple[Step, list[float]]] = []
    with inside.looking:
        inside.run.watcher = lambda step, marks: seen.append((step, marks))
        try:
            yield seen
        finally:
            inside.run.watcher = None


def _is_ours(step: Step, text: Sequence[int], end: int) -> bool:
    """A step of one request, whose tokens are the text's, or the few behind it."""
    if step.request_of[0] != step.request_of[-1] or len(step.page_tables[0]) != 1:
        return False
    start, stop = int(step.positions[0]), int(step.positions[-1]) + 1
    if start >= end:
        return stop - start == 1 and stop <= end + REPEATS
    return stop <= end and step.tokens.tolist() == list(text[start:stop])


def _timed(inside: Inside, step: Step, marks: Sequence[float]) -> TimedStep:
    costs = step_costs(inside.decoder, inside.layout, step)
    assert len(costs) == len(marks) - 1, "the counted ops are not the recorded ones"
    ops, layer = [], -1
    for cost, (begin, end) in zip(costs, pairwise(marks), strict=True):
        layer += cost.op == "project"
        inner = layer if layer >= 0 and cost.op != "logits" else None
        ops.append(TimedOp(cost.op, inner, begin, end - begin, cost))
    return TimedStep(int(step.positions[0]), len(step.tokens), len(step.rows), tuple(ops))


def _middle(steps: Sequence[TimedStep]) -> TimedStep:
    """The step whose time is the median."""
    return sorted(steps, key=lambda step: step.seconds)[(len(steps) - 1) // 2]
