"""Measurements as rows of tables and as JSON values."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutaway.bench.limits import ARITHMETICS, Limits
from cutaway.bench.per_op import OpTime, StepTime
from cutaway.bench.rates import Rate
from cutaway.bench.subject import Subject

RATE_HEADINGS = ("work", "tokens/s", "min–max", "limit", "share", "bound by", "at")
OP_HEADINGS = ("op", "times", "MB", "GOP", "floor ms", "ms", "share", "bound by")


def about(subject: Subject) -> dict[str, Any]:
    """The model and what it ran on."""
    return {
        "model": subject.name,
        "processor": processor(),
        "instruction_set": subject.backend.instruction_set,
        "threads": subject.backend.threads.count,
        "kv": [subject.settings.key_type, subject.settings.value_type],
    }


def headline(subject: Subject) -> str:
    kinds = "/".join(dict.fromkeys([subject.settings.key_type, subject.settings.value_type]))
    about = subject.backend.describe()
    return f"{subject.name}: {about.threads.count} threads, {about.instruction_set}, keys and values in {kinds}"


def processor() -> str:
    """The processor's name as Linux has it, else what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


# --- rates ------------------------------------------------------------------------------------------------------------
def rate_row(rate: Rate) -> list[str]:
    """One line under RATE_HEADINGS."""
    return [
        rate.work.label,
        f"{rate.rate:.1f}",
        f"{min(rate.rates):.1f}–{max(rate.rates):.1f}",
        f"{rate.limit:.1f}",
        f"{rate.share:.0%}",
        rate.cost.binds(rate.limits),
        _bound(rate),
    ]


def _bound(rate: Rate) -> str:
    """The limit that the share is of."""
    if rate.cost.binds(rate.limits) == "memory":
        return f"{rate.cost.bytes / 1e6:.0f} MB a step, {rate.limits.bandwidth / 1e9:.1f} GB/s"
    operations = sum(rate.cost.operations.values())
    speed = operations / rate.cost.seconds_computing(rate.limits)
    return f"{operations / rate.tokens / 1e9:.2f} GOP a token, {speed / 1e9:.0f} GOP/s"


def rate_json(rate: Rate) -> dict[str, Any]:
    return {
        "work": rate.work.label,
        "prompt": rate.work.tokens,
        "streams": rate.work.streams,
        "context": rate.work.context,
        "rate": rate.rate,
        "rates": rate.rates,
        "share": rate.share,
        "shares": rate.shares,
        "limit": rate.limit,
        "bound_by": rate.cost.binds(rate.limits),
        "tokens": rate.tokens,
        "bytes": rate.cost.bytes,
        "operations": rate.cost.operations,
        "limits": limits_json(rate.limits),
    }


# --- ops --------------------------------------------------------------------------------------------------------------
def op_rows(time: StepTime) -> list[list[str]]:
    """Lines under OP_HEADINGS, slowest first, then the sums."""
    together = sum(op.seconds for op in time.ops)
    read = sum(op.cost.bytes for op in time.ops)
    operations = sum(_operations(op) for op in time.ops)
    return [
        *(_op_row(op) for op in time.ops),
        [
            *("all, one by one", "", f"{read / 1e6:.2f}", f"{operations / 1e9:.3f}"),
            *_floor_and_time(time.floor, together),
            "",
        ],
        ["the step in one call", "", "", "", *_floor_and_time(time.floor, time.whole), ""],
    ]


def _op_row(op: OpTime) -> list[str]:
    return [
        *(op.cost.label, str(op.count), f"{op.cost.bytes / 1e6:.2f}", f"{_operations(op) / 1e9:.3f}"),
        *_floor_and_time(op.floor, op.seconds),
        op.binds if op.floor else "",
    ]


def _floor_and_time(floor: float, seconds: float) -> tuple[str, str, str]:
    return f"{floor * 1e3:.3f}", f"{seconds * 1e3:.3f}", f"{floor / seconds:.0%}"


def _operations(op: OpTime) -> float:
    return sum(op.cost.operations.values())


def step_json(label: str, time: StepTime) -> dict[str, Any]:
    return {
        "work": label,
        "tokens": time.tokens,
        "seconds": time.whole,
        "floor": time.floor,
        "limits": limits_json(time.limits),
        "ops": [
            {
                "op": op.cost.op,
                "label": op.cost.label,
                "count": op.count,
                "bytes": op.cost.bytes,
                "operations": op.cost.operations,
                "floor": op.floor,
                "seconds": op.seconds,
                "bound_by": op.binds,
            }
            for op in time.ops
        ],
    }


# --- limits -----------------------------------------------------------------------------------------------------------
def limits_json(limits: Limits) -> dict[str, float]:
    return {name: getattr(limits, name) for name in ("bandwidth", *ARITHMETICS)}


def limits_line(limits: Limits) -> str:
    rates: Sequence[str] = [f"{kind} {limits.rate(kind) / 1e9:.0f}" for kind in ARITHMETICS]
    return f"{limits.bandwidth / 1e9:.1f} GB/s; {', '.join(rates)} GOP/s"
