"""A trace in Chrome's trace event format, which Perfetto and chrome://tracing open.

Source: "Trace Event Format" (Google, 2016): complete events (`ph` "X") with `ts` and `dur` in microseconds; events of
one thread lie inside each other or apart. Two processes: the request as it ran, and its steps op by op, run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutaway.xray.course import Course, CourseStep
from cutaway.xray.op_times import OpTimes, TimedStep

_RAN, _APART = 1, 2


def chrome_trace(course: Course, ops: OpTimes | None = None) -> dict[str, Any]:
    """One JSON object. Times count from the arrival of the request, and in the second run from its first op."""
    events = [*_names(_RAN, f"{course.model}: as it ran", "stages"), *_course_events(course)]
    if ops is not None:
        events += [*_names(_APART, "op by op, a second run", "ops"), *_op_events(ops)]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _names(process: int, name: str, thread: str) -> list[dict[str, Any]]:
    said = (("process_name", name), ("thread_name", thread))
    return [{"ph": "M", "pid": process, "tid": 1, "name": what, "args": {"name": value}} for what, value in said]


def _event(process: int, name: str, kind: str, began: float, ended: float, **args: Any) -> dict[str, Any]:
    """Milliseconds to whole nanoseconds in microseconds, so that what touches does not overlap."""
    ts, end = round(began * 1e3, 3), round(ended * 1e3, 3)
    return {
        "ph": "X", "pid": process, "tid": 1, "name": name, "cat": kind, "ts": ts, "dur": round(max(0.0, end - ts), 3),
        "args": args,
    }  # fmt: skip


def _course_events(course: Course) -> Iterator[dict[str, Any]]:
    at = 0.0
    for name, ms in (("template", course.template), ("tokenize", course.tokenize)):
        if ms is not None:
            yield _event(_RAN, name, "request", at, at := at + ms)
    first = course.steps[0].began if course.steps else None
    if first is not None and first > at:
        yield _event(_RAN, "queue", "request", at, first)
    for step in course.steps:
        yield from _step_events(step)


def _step_events(step: CourseStep) -> Iterator[dict[str, Any]]:
    name = "prefill" if step.reads else "decode"
    yield _event(_RAN, name, "step", step.began, step.ended, start=step.start, tokens=step.tokens)
    at = step.began
    for part, ms in step.parts.items():
        end = min(at + ms, step.ended)
        yield _event(_RAN, part, "part", at, end)
        at = end


def _op_events(ops: OpTimes) -> Iterator[dict[str, Any]]:
    steps = sorted((*ops.prompt, *ops.answer), key=lambda step: step.ops[0].began)
    zero = steps[0].ops[0].began if steps else 0.0
    for step in steps:
        yield from _ops_of(step, zero)


def _ops_of(step: TimedStep, zero: float) -> Iterator[dict[str, Any]]:
    def at(seconds: float) -> float:
        return 1e3 * (seconds - zero)

    last = step.ops[-1]
    name = f"step of {step.tokens} at {step.start}"
    yield _event(_APART, name, "step", at(step.ops[0].began), at(last.began + last.seconds), context=step.context)
    for op in step.ops:
        yield _event(
            _APART, op.name, "op", at(op.began), at(op.began + op.seconds), layer=op.layer, label=op.cost.label,
            bytes=op.cost.bytes, operations=sum(op.cost.operations.values()),
        )  # fmt: skip
