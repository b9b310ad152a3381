"""A request's whole way as stages: what each took, of what shape, what share of all, and how that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cutaway.engine import Inside
from cutaway.ops.protocol import KV_ITEM_BYTES, KV_SCALE_BYTES, KVLayout
from cutaway.xray.course import Course, CourseStep
from cutaway.xray.op_times import OpTimes, TimedStep

How = Literal["measured", "counted", "unknown"]
PARTS = ("plan", "batch", "forward", "sample", "detokenize", "hand_out")


@dataclass(frozen=True, slots=True)
class Stage:
    """ms: None where it is not known. share: of the whole request, 0 to 1; None where it is not known, or where it runs
    beside other stages. inside: the stage that it is a part of, "" for none."""

    name: str
    shape: str
    ms: float | None
    share: float | None
    how: How
    inside: str = ""


@dataclass(frozen=True, slots=True)
class OpRow:
    """The ops of one label in a step, together. part: embed, layers or head. share: of the step's ops. bytes,
    operations: counted; a multiply-add is two operations."""

    part: str
    label: str
    count: int
    ms: float
    share: float
    bytes: float
    operations: float


@dataclass(frozen=True, slots=True)
class AttentionPart:
    """A part of all layers' attention in one step. operations: multiply-adds count two, exponentials one; bytes: of
    keys or values that are read."""

    name: str
    operations: int
    bytes: int
    how: How = "counted"


@dataclass(frozen=True, slots=True)
class Place:
    """A step of the answer at one context. ms: of its ops, one by one; attention_ms: of the attention ops alone."""

    context: int
    ms: float
    attention_ms: float
    attention: tuple[AttentionPart, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """ops are of the step that read the prompt's last part (`prompt_ops`), and of the last place (`answer_ops`).
    ops_ms: what measuring them took; None where they were not measured, and `why` says why not."""

    course: Course
    stages: tuple[Stage, ...]
    prompt_ops: tuple[OpRow, ...] = ()
    answer_ops: tuple[OpRow, ...] = ()
    places: tuple[Place, ...] = ()
    ops_ms: float | None = None
    why: str = ""


def trace_of(
    course: Course, inside: Inside | None = None, ops: OpTimes | None = None, ops_ms: float | None = None, why: str = ""
) -> Trace:
    """The stages of a course, with its ops where they were measured."""
    stages = tuple(_stages(course))
    if ops is None or inside is None:
        return Trace(course, stages, why=why)
    prompt, answer = ops.prompt[-1:], ops.answer[-1:]
    places = tuple(_place(step, inside) for step in ops.answer)
    return Trace(course, stages, _rows(prompt), _rows(answer), places, ops_ms)


def _stages(course: Course) -> Iterator[Stage]:
    def stage(name: str, shape: str, ms: float | None, inside: str = "") -> Stage:
        share = None if ms is None or not course.total else ms / course.total
        return Stage(name, shape, ms, share, "unknown" if ms is None else "measured", inside)

    prompt, reading = course.prompt_tokens, [step for step in course.steps if step.reads]
    decoding = [step for step in course.steps if not step.reads]
    yield stage("template", f"{n} message{'s' if n > 1 else ''}" if (n := course.messages) else "", course.template)
    yield stage("tokenize", f"{prompt} tokens, {course.cached_tokens} found in the cache", course.tokenize)
    yield stage("queue", "", course.queue)
    for number, step in enumerate(reading, 1):
        shape = f"[{step.tokens}] tokens at {step.start}"
        yield stage(f"prefill {number}", shape, step.ended - step.began)
    yield from (stage(name, "", ms, "prefill") for name, ms in _parts(reading, None))
    yield stage("decode", f"{len(decoding)} steps of [1] token", sum(step.ended - step.began for step in decoding))
    yield from (stage(name, "", ms, "decode") for name, ms in _parts(decoding, course.detokenize))
    sending = Stage("send", "beside the steps", course.send, None, "unknown" if course.send is None else "measured")
    yield sending


def _parts(steps: Sequence[CourseStep], detokenize: float | None) -> Iterator[tuple[str, float | None]]:
    """The parts of these steps together; detokenizing is measured apart and taken out of sampling."""
    if not steps:
        return
    known = all(step.parts for step in steps)
    sums = {name: sum(step.parts.get(name, 0.0) for step in steps) if known else None for name in PARTS}
    sample = sums["sample"]
    if detokenize is None or sample is None:
        sums.pop("detokenize")
    else:
        sums["detokenize"] = min(detokenize, sample)
        sums["sample"] = sample - min(detokenize, sample)
    yield from sums.items()


def _rows(steps: Sequence[TimedStep]) -> tuple[OpRow, ...]:
    found: dict[tuple[str, str], list[float]] = {}
    for step in steps:
        for op in step.ops:
            part = "layers" if op.layer is not None else "head" if op.name == "logits" else "embed"
            sums = found.setdefault((part, op.cost.label), [0, 0, 0, 0])
            for at, value in enumerate((1, op.seconds, op.cost.bytes, sum(op.cost.operations.values()))):
                sums[at] += value
    whole = sum(step.seconds for step in steps) or 1.0
    return tuple(
        OpRow(part, label, int(count), 1e3 * seconds, seconds / whole, bytes, operations)
        for (part, label), (count, seconds, bytes, operations) in found.items()
    )


def _place(step: TimedStep, inside: Inside) -> Place:
    attending = sum(op.seconds for op in step.ops if op.name == "attend")
    return Place(step.context, 1e3 * step.seconds, 1e3 * attending, attention_parts(step.context, inside))


def attention_parts(context: int, inside: Inside) -> tuple[AttentionPart, ...]:
    """What one token that sees `context` tokens costs in the attention of all layers, counted from their shapes."""
    scores = softmax = keys = values = 0
    for layer in inside.decoder.layers:
        attention = layer.attention
        seen = min(context, attention.window or context)
        scores += 2 * attention.heads * attention.head_dim * seen
        softmax += attention.heads * seen
        keys += seen * _bytes(inside.layout, inside.layout.key_type)
        values += seen * _bytes(inside.layout, inside.layout.value_type)
    return (
        AttentionPart("scores", scores, keys),
        AttentionPart("softmax", softmax, 0),
        AttentionPart("values", scores, values),
    )


def _bytes(layout: KVLayout, kind: str) -> int:
    """Of one token's keys, or values, in one layer."""
    return layout.kv_heads * (layout.head_dim * KV_ITEM_BYTES[kind] + KV_SCALE_BYTES[kind])
