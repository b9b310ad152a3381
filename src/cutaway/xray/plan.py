"""A plan: what a model takes in bytes and milliseconds, what fits, and what to change where it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cutaway.bench.calibrate import work_of
from cutaway.errors import ParameterError
from cutaway.model import RopeScaling, stretched_context
from cutaway.ops.backend import Backend
from cutaway.ops.protocol import KVType
from cutaway.planner import DEFAULT_CONTEXT, MemoryPlan, ModelOutline, outline_model
from cutaway.planner.calibration import Calibration, identity_of
from cutaway.planner.latency import Interval, Predictor, other_predictor, own_predictor
from cutaway.planner.mixes import OFFERED
from cutaway.xray.planned_model import PlannedModel

CONTEXTS = (4096, 32768, 131072)
MOST_REQUESTS = 4096


@dataclass(frozen=True, slots=True)
class Ask:
    """What is planned for. context: None: as for `run`. requests: that fill the context at once. ttft, tpot: ms that a
    first token (of a prompt as long as the context) and each further one may take."""

    context: int | None = None
    requests: int = 1
    key_type: KVType = "bf16"
    value_type: KVType = "bf16"
    rope_scaling: RopeScaling | None = None
    ttft: float | None = None
    tpot: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("context", self.context), ("requests", self.requests)):
            if value is not None and not 1 <= value <= 1 << 24:
                raise ParameterError(f"{name} is {value}; it must be 1 to {1 << 24}")
        for name, limit in (("ttft", self.ttft), ("tpot", self.tpot)):
            if limit is not None and not 0 < limit < 1e9:
                raise ParameterError(f"{name} is {limit}; it must be above 0")


@dataclass(frozen=True, slots=True)
class Here:
    """This machine: bytes that may still be taken, what a process has beside its model (None: not known), the time and
    what was calibrated."""

    backend: Backend
    available: int | None
    process: int | None
    now: float
    calibrations: Sequence[Calibration] = ()


@dataclass(frozen=True, slots=True)
class ContextCost:
    """What a context costs one request. attention: share of a step that reads keys and values."""

    context: int
    kv: int
    first: Interval | None
    each: Interval | None
    attention: float | None


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change. total: bytes then, for memory; config: lines of a cutaway.toml, or an option."""

    what: str
    config: tuple[str, ...]
    total: int | None = None
    time: Interval | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """total: with the process. most_context: for the wanted number of requests; most_requests: at the wanted
    context; None where no limit is known. misses: "memory", "ttft", "tpot"."""

    model: PlannedModel
    ask: Ask
    outline: ModelOutline
    memory: MemoryPlan
    process: int | None
    available: int | None
    most_context: int | None
    most_requests: int | None
    predictor: Predictor | None
    first: Interval | None
    each: Interval | None
    contexts: tuple[ContextCost, ...]
    misses: tuple[str, ...]
    advice: tuple[Advice, ...]

    @property
    def total(self) -> int:
        return self.memory.total + (self.process or 0)

    @property
    def fits(self) -> bool | None:
        return None if self.available is None else self.total <= self.available


def make_plan(model: PlannedModel, ask: Ask, here: Here) -> Plan:
    """Plan from a header. Raises FormatError, UnsupportedError, ParameterError."""
    outline = outline_model(model.file, model.spec, here.backend, ask.rope_scaling)
    reach = stretched_context(ask.rope_scaling, model.spec.context)
    ask = replace(ask, context=ask.context or min(reach, DEFAULT_CONTEXT))
    assert ask.context is not None
    memory = memory_for(outline, ask)
    predictor = predictor_for(model, outline, ask, here)
    first = predictor.first(ask.context) if predictor else None
    each = predictor.each(ask.requests, ask.context) if predictor else None
    limit = here.available
    most_context = most_requests = None
    if limit is not None:
        room = limit - (here.process or 0)
        most_context = _most(_fitting(outline, ask, room, "context"), reach)
        most_requests = _most(_fitting(outline, ask, room, "requests"), MOST_REQUESTS)
    plan = Plan(
        model, ask, outline, memory, here.process, limit, most_context, most_requests, predictor, first, each,
        _contexts(outline, ask, predictor, reach), (), (),
    )  # fmt: skip
    misses = _misses(plan)
    return replace(plan, misses=misses, advice=tuple(_advice(plan, misses, here)))


def memory_for(outline: ModelOutline, ask: Ask) -> MemoryPlan:
    assert ask.context is not None
    return outline.memory(
        context=ask.context, requests=ask.requests, key_type=ask.key_type, value_type=ask.value_type
    )  # fmt: skip


def predictor_for(model: PlannedModel, outline: ModelOutline, ask: Ask, here: Here) -> Predictor | None:
    """The model's own calibration for these types of keys and values, else other models' rates, else None."""
    about = here.backend.describe()
    alike = [
        c for c in here.calibrations
        if (c.instruction_set, c.threads) == (about.instruction_set, about.threads.count)
    ]  # fmt: skip
    if model.path is not None and not model.changed:
        identity = identity_of(model.path)
        same = [c for c in alike if (c.identity, c.kv_k, c.kv_v) == (identity, ask.key_type, ask.value_type)]
        if same:
            return own_predictor(same[0], here.now)
    return other_predictor(alike, work_of(outline, ask.key_type, ask.value_type), here.now)


def _contexts(outline: ModelOutline, ask: Ask, predictor: Predictor | None, reach: int) -> tuple[ContextCost, ...]:
    """Of the usual lengths that the model reaches, and of the wanted one."""
    assert ask.context is not None
    lengths = sorted({*(c for c in CONTEXTS if c <= reach), ask.context})
    return tuple(
        ContextCost(
            length,
            memory_for(outline, replace(ask, context=length, requests=1)).kv_bytes,
            predictor.first(length) if predictor else None,
            predictor.each(1, length) if predictor else None,
            predictor.attention(1, length) if predictor else None,
        )
        for length in lengths
    )


def _misses(plan: Plan) -> tuple[str, ...]:
    late = [
        name for name, time, limit in (("ttft", plan.first, plan.ask.ttft), ("tpot", plan.each, plan.ask.tpot))
        if limit is not None and time is not None and time.high > limit
    ]  # fmt: skip
    return (*(["memory"] if plan.fits is False else []), *late)


def _most(fits: Callable[[int], bool], highest: int) -> int:
    """The largest number up to `highest` that fits; 0 for none."""
    low, high = 0, highest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# --- what to change ---------------------------------------------------------------------------------------------------
def _advice(plan: Plan, misses: Sequence[str], here: Here) -> list[Advice]:
    found: list[Advice] = []
    if "memory" in misses:
        found += _smaller(plan, here)
    if "tpot" in misses or "ttft" in misses:
        found += _quicker(plan, misses, here)
    return found


def _smaller(plan: Plan, here: Here) -> list[Advice]:
    """Single changes that make it fit, then other types of the weights, then all together."""
    ask, room = plan.ask, (plan.available or 0) - (here.process or 0)
    found = []

    def offer(what: str, config: Sequence[str], outline: ModelOutline, changed: Ask) -> bool:
        total = memory_for(outline, changed).total
        if total <= room:
            found.append(Advice(what, tuple(config), total + (here.process or 0)))
        return total <= room

    if plan.most_context:
        changed = replace(ask, context=plan.most_context)
        offer(f"a context of {plan.most_context} tokens", [f"context = {plan.most_context}"], plan.outline, changed)
    if plan.most_requests and plan.most_requests < ask.requests:
        lines = ["[[models]]", f'model = "{plan.model.name}"', f"contexts = {plan.most_requests}"]
        offer(f"{plan.most_requests} requests at once", lines, plan.outline, replace(ask, requests=plan.most_requests))
    offer("values in int8", ['kv_v = "int8"'], plan.outline, replace(ask, value_type="int8"))
    both = replace(ask, key_type="int8", value_type="int8")
    offer("keys and values in int8", ['kv_k = "int8"', 'kv_v = "int8"'], plan.outline, both)
    for mix, outline in _mixes(plan, here):
        if offer(f"weights in {mix}", [f"--weights {mix}"], outline, ask):
            break
    if not found:
        for mix, outline in _mixes(plan, here):
            context = _most(_fitting(outline, both, room, "context"), ask.context or 1)
            if context:
                lines = [f"--weights {mix}", f"context = {context}", 'kv_k = "int8"', 'kv_v = "int8"']
                changed = replace(both, context=context)
                offer(f"weights in {mix}, keys and values in int8, {context} tokens", lines, outline, changed)
                break
    return found


def _fitting(outline: ModelOutline, ask: Ask, room: int, name: Literal["context", "requests"]) -> Callable[[int], bool]:
    """Whether it fits with so many tokens of context, or requests."""

    def fits(count: int) -> bool:
        changed = replace(ask, context=count) if name == "context" else replace(ask, requests=count)
        return memory_for(outline, changed).total <= room

    return fits


def _within(limit: float, time: Callable[[int], Interval | None]) -> Callable[[int], bool]:
    def fits(count: int) -> bool:
        found = time(count)
        return found is not None and found.high <= limit

    return fits


def _mixes(plan: Plan, here: Here) -> list[tuple[str, ModelOutline]]:
    """Types of weights that take less than those planned, the largest first."""
    made = []
    for mix in OFFERED:
        model = plan.model.as_mix(mix)
        outline = outline_model(model.file, model.spec, here.backend, plan.ask.rope_scaling)
        if sum(w.packed for w in outline.weights) < sum(w.packed for w in plan.outline.weights):
            made.append((mix, outline))
    return made


def _quicker(plan: Plan, misses: Sequence[str], here: Here) -> list[Advice]:
    """Shorter prompts, fewer requests, fewer bytes; each with the time that is expected then."""
    ask, predictor = plan.ask, plan.predictor
    assert predictor is not None and ask.context is not None
    found = []
    if "ttft" in misses and ask.ttft is not None:
        most = _most(_within(ask.ttft, predictor.first), ask.context)
        if most:
            config = (f"context = {most}",)
            found.append(Advice(f"prompts of at most {most} tokens", config, time=predictor.first(most)))
    if "tpot" in misses and ask.tpot is not None:
        limit, context = ask.tpot, ask.context
        most = _most(_within(limit, lambda n: predictor.each(n, context)), ask.requests)
        if most:
            lines = ("[[models]]", f'model = "{plan.model.name}"', f"max_requests = {most}")
            found.append(Advice(f"{most} requests at once", lines, time=predictor.each(most, ask.context)))
        for mix, outline in _mixes(plan, here):
            model = plan.model.as_mix(mix)
            then = predictor_for(model, outline, ask, here)
            time = then.each(ask.requests, ask.context) if then else None
            if time is not None and time.high <= limit:
                found.append(Advice(f"weights in {mix}", (f"--weights {mix}",), time=time))
                break
    return found
