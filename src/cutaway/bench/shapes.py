"""The rate of each matrix shape at each batch, against the limit: which shapes suit this machine, and which do not.

A step's time is the sum over its shapes. Where a shape stays below its limit (few rows to share among threads, a type
that costs more to unpack, sums of an odd length), a model that has more of it is slower than its bytes say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.bench.limits import Limits
from cutaway.bench.per_op import OpTime, measure_ops
from cutaway.bench.report import limits_json
from cutaway.bench.subject import Subject

PRODUCTS = ("project", "project_add", "feed", "mix_experts", "logits")
BATCHES = (1, 4, 16, 64, 512)
HEADINGS = ("shape", "of", "MB", "batch", "ms", "GB/s", "GOP/s", "of limit", "bound by")


@dataclass(frozen=True, slots=True)
class ShapeRate:
    """All products of one shape in a step, at one batch (tokens; of the last product, rows). seconds: of one of them,
    floor: that the machine needs at least. share: of the model's packed weights that all of them are."""

    op: str
    label: str
    count: int
    batch: int
    bytes: float
    operations: float
    seconds: float
    floor: float
    binds: str
    share: float

    @property
    def of_limit(self) -> float:
        return self.floor / self.seconds


@dataclass(frozen=True, slots=True)
class ShapeRates:
    """rates: the shapes in the order of their share of the weights, each at every batch. limits: per batch, as they
    were measured beside it."""

    rates: tuple[ShapeRate, ...]
    limits: tuple[Limits, ...]


def measure_shapes(subject: Subject, batches: Sequence[int] = BATCHES, *, rounds: int = 5) -> ShapeRates:
    """Medians over rounds. Each batch must fit the subject's context. Raises what `measure_ops` raises."""
    found: list[ShapeRate] = []
    limits = []
    for batch in batches:
        time = measure_ops(subject, subject.prompt(batch)[-1], rounds=rounds)
        limits.append(time.limits)
        products = [op for op in time.ops if op.cost.op in PRODUCTS]
        whole = sum(op.cost.bytes for op in products)
        found += [_rate(op, batch if op.cost.op != "logits" else 1, op.cost.bytes / whole) for op in products]
    weight = {rate.label: rate.share for rate in found}
    return ShapeRates(tuple(sorted(found, key=lambda r: (-weight[r.label], r.label, r.batch))), tuple(limits))


def _rate(op: OpTime, batch: int, share: float) -> ShapeRate:
    each = 1 / op.count
    operations = sum(op.cost.operations.values())
    return ShapeRate(
        op.cost.op, op.cost.label, op.count, batch, op.cost.bytes * each, operations * each, op.seconds * each,
        op.floor * each, op.binds, share,
    )  # fmt: skip


def shape_rows(found: ShapeRates) -> list[list[str]]:
    """Lines under HEADINGS; the shape stands in the first of its lines."""
    rows: list[list[str]] = []
    last = ""
    for rate in found.rates:
        name = [rate.label, f"{rate.share:.0%}", f"{rate.bytes / 1e6:.2f}"] if rate.label != last else ["", "", ""]
        last = rate.label
        rows.append(
            [
                *name, str(rate.batch), f"{rate.seconds * 1e3:.3f}", f"{rate.bytes / rate.seconds / 1e9:.1f}",
                f"{rate.operations / rate.seconds / 1e9:.0f}", f"{rate.of_limit:.0%}", rate.binds,
            ]
        )  # fmt: skip
    return rows


def verdict(found: ShapeRates) -> list[str]:
    """Which shapes cost the most beyond their limit, at the smallest and at the largest batch, in words."""
    told = []
    batches = sorted({rate.batch for rate in found.rates if rate.op != "logits"})
    for batch in dict.fromkeys((batches[0], batches[-1])):
        here = [r for r in found.rates if r.batch == batch or r.op == "logits"]
        here = list({r.label: r for r in here}.values())
        lost = {r.label: (r.seconds - r.floor) * r.count for r in here}
        whole = sum(r.seconds * r.count for r in here)
        floor = sum(r.floor * r.count for r in here)
        worst = max(here, key=lambda r: lost[r.label])
        told.append(
            f"batch {batch}: the products take {whole * 1e3:.1f} ms, {floor / whole:.0%} of the limit; "
            f"most is lost in {worst.label}: {lost[worst.label] * 1e3:.1f} ms beyond its limit"
        )
    return told


def shapes_json(found: ShapeRates) -> dict[str, Any]:
    """seconds, floor: of one product; bytes, operations: of one product."""
    return {
        "limits": [limits_json(limits) for limits in found.limits],
        "shapes": [
            {
                "op": r.op, "shape": r.label, "count": r.count, "batch": r.batch, "share_of_weights": r.share,
                "bytes": r.bytes, "operations": r.operations, "seconds": r.seconds, "floor": r.floor,
                "of_limit": r.of_limit, "bound_by": r.binds,
            }
            for r in found.rates
        ],
    }  # fmt: skip
