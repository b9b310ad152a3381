"""A plan as one JSON object. Units: bytes, milliseconds, tokens; null: not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cutaway.ops.backend import Backend
from cutaway.planner import outline_model, plan_rows
from cutaway.planner.devices import DeviceNeed, active_share, smallest_size
from cutaway.planner.latency import Interval, Predictor
from cutaway.planner.lengths import Comparison, Lengths
from cutaway.planner.mixes import OFFERED
from cutaway.xray.plan import Ask, Here, Plan, memory_for, predictor_for
from cutaway.xray.planned_model import PlannedModel


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One way to store the weights. weights: bytes as this engine packs them; file: as a file has them; each: ms per
    token of one request at the context."""

    types: str
    file: int
    weights: int
    total: int
    smallest_device: str
    each: Interval | None


def type_rows(model: PlannedModel, ask: Ask, here: Here, types: Sequence[str] = OFFERED) -> list[TypeRow]:
    """A row per type of weights."""
    found = []
    for mix in types:
        typed = model.as_mix(mix)
        outline = outline_model(typed.file, typed.spec, here.backend, ask.rope_scaling)
        memory = memory_for(outline, ask)
        predictor = predictor_for(typed, outline, ask, here)
        each = predictor.each(ask.requests, ask.context or 1) if predictor else None
        file = sum(t.raw.nbytes for t in typed.file.tensors.values())
        device = smallest_size(file + memory.kv_bytes + memory.scratch)
        found.append(TypeRow(mix, file, memory.weight_bytes, memory.total + (here.process or 0), device, each))
    return found


def plan_json(plan: Plan, backend: Backend) -> dict[str, Any]:
    """The plan without its optional tables, which have functions of their own."""
    memory, spec, ask = plan.memory, plan.model.spec, plan.ask
    rows = [{"what": what, "of": of, "bytes": count} for what, of, count in plan_rows(memory)[:-1]]
    return {
        "model": plan.model.name,
        "origin": plan.model.origin,
        "types": plan.model.types,
        "fetched_bytes": plan.model.fetched,
        "family": spec.family,
        "layers": spec.layers,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "experts": None if spec.experts is None else {"count": spec.experts.count, "used": spec.experts.used},
        "active_share": active_share(spec),
        "trained_context": spec.context,
        "context": ask.context,
        "requests": ask.requests,
        "kv_k": ask.key_type,
        "kv_v": ask.value_type,
        "ledger": rows,
        "engine_bytes": memory.total,
        "process_bytes": plan.process,
        "total": plan.total,
        "mapped_bytes": memory.mapped,
        "kv_token_bytes": memory.token_bytes,
        "kv_request_bytes": memory.kv_bytes // ask.requests,
        "kv_bytes": memory.kv_bytes,
        "available": plan.available,
        "fits": plan.fits,
        "most_context": plan.most_context,
        "most_requests": plan.most_requests,
        "threads": backend.describe().threads.count,
        "instruction_set": backend.describe().instruction_set,
        "latency": None if plan.predictor is None else {
            "basis": plan.predictor.basis, "age_seconds": round(plan.predictor.age, 1), "sound": plan.predictor.sound,
            "ttft_ms": interval_json(plan.first), "tpot_ms": interval_json(plan.each),
        },
        "contexts": [
            {"context": c.context, "kv_bytes": c.kv, "ttft_ms": interval_json(c.first),
             "tpot_ms": interval_json(c.each), "attention_share": c.attention}
            for c in plan.contexts
        ],
        "misses": list(plan.misses),
        "advice": [
            {"what": a.what, "config": list(a.config), "total": a.total, "ms": interval_json(a.time)}
            for a in plan.advice
        ],
    }  # fmt: skip


def type_row_json(row: TypeRow) -> dict[str, Any]:
    return {
        "types": row.types, "file_bytes": row.file, "weight_bytes": row.weights, "total": row.total,
        "smallest_device": row.smallest_device, "tpot_ms": interval_json(row.each),
    }  # fmt: skip


def device_json(need: DeviceNeed, seconds: float | None) -> dict[str, Any]:
    return {
        "device": need.device.name, "count": need.device.count, "memory_bytes": need.device.memory,
        "weight_bytes": need.weights, "kv_bytes": need.kv, "scratch_bytes": need.scratch, "total": need.total,
        "largest_device_bytes": need.largest, "fits": need.fits,
        "tpot_ms": None if seconds is None else seconds * 1e3,
    }  # fmt: skip


def lengths_json(made: Comparison, lengths: Lengths, budget: int, predictor: Predictor | None) -> dict[str, Any]:
    """predictor: of the machine with that budget. tpot_ms: with as many mean requests as fit, each half grown."""
    whole = asdict(made) | {"skipped": lengths.skipped, "budget": budget}
    for name in ("contiguous", "paged"):
        part = whole[name]
        each = predictor.each(part["requests"], int(made.mean / 2)) if predictor else None
        part["tpot_ms"] = interval_json(each) if part["requests"] else None
    return whole


def interval_json(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {name: round(value, 3) for name, value in asdict(interval).items()}
