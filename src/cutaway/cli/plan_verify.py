"""`cutaway plan --verify`: the plan beside a loaded model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutaway.cli.loading import model_on_disk
from cutaway.cli.plan_report import UNKNOWN, seconds
from cutaway.cli.terminal import say, write_json, write_table

if TYPE_CHECKING:
    from cutaway.cli.plan_options import PlanOptions
    from cutaway.xray.plan_verify import Check, TimeCheck

EVERY = "all"
"""Instead of a model's name: all that are on this machine."""


def verify(model: str, options: PlanOptions) -> None:
    """Raises what `verify_plan` raises."""
    from cutaway.registry import models
    from cutaway.registry.store import calibrations_folder
    from cutaway.xray.plan_verify import CONTEXTS, SHORT_CONTEXTS, SHORT_TYPES, TYPES, check_json, verify_plan

    names = [m.manifest.name for m in models()] if model == EVERY else [model]
    contexts = (options.context,) if options.context else CONTEXTS if options.full else SHORT_CONTEXTS
    checks: list[Check] = []
    for name in names:
        model_on_disk(name)
        for check in verify_plan(
            name, contexts=contexts, types=TYPES if options.full else SHORT_TYPES, threads=options.threads,
            calibrations=calibrations_folder(),
        ):  # fmt: skip
            checks.append(check)
            say(f"{name}: {check.requests} x {check.context} tokens, keys {check.key_type}, values {check.value_type}")
    if options.json:
        write_json({"checks": [check_json(c) for c in checks]})
        return
    headings = ["model", "context", "at once", "k/v", "allocator", "planned", "process", "off", ""]
    headings += ["first token", "each"]
    write_table(headings, [_row(c) for c in checks], right=(1, 2, 5, 6, 7))
    print("\nallocator: weights, pages and scratch, minus the plan. process: anonymous memory; mapped files are apart.")
    print(_sum(checks))


def _row(c: Check) -> list[str]:
    from cutaway.planner import readable_bytes as size

    off = UNKNOWN if c.measured is None else f"{(c.measured - c.planned) / c.planned:+.1%}"
    verdict = {True: "ok", False: "OUTSIDE", None: UNKNOWN}[c.within]
    exact = "exact" if c.exact else f"{c.weights:+d} {c.pages:+d} {c.scratch:+d}"
    measured = UNKNOWN if c.measured is None else size(c.measured)
    return [
        c.model, str(c.context), str(c.requests), f"{c.key_type}/{c.value_type}", exact, size(c.planned), measured, off,
        verdict, _time(c.ttft), _time(c.tpot),
    ]  # fmt: skip


def _time(check: TimeCheck | None) -> str:
    """ "81 [76, 88] ms: 84", with a mark where it lies outside."""
    if check is None:
        return ""
    if check.predicted is None or check.inside is None:
        return f"{UNKNOWN}: {check.measured:.0f} ms"
    p = check.predicted
    predicted = seconds({"low": p.low, "middle": p.middle, "high": p.high})
    return f"{predicted}: {check.measured:.1f}{'' if check.inside else ' OUTSIDE'}"


def _sum(checks: list[Check]) -> str:
    from statistics import median

    times = [t for c in checks for t in (c.ttft, c.tpot) if t is not None and t.inside is not None and t.predicted]
    exact, within = sum(c.exact for c in checks), sum(bool(c.within) for c in checks)
    told = f"{exact} of {len(checks)} exact by the allocator, {within} of {len(checks)} processes within bounds"
    if not times:
        return f"{told}; times: {UNKNOWN} (they need a calibration of the last ten minutes on a quiet machine)"
    widths = median(t.predicted.width for t in times if t.predicted)
    return f"{told}; {sum(bool(t.inside) for t in times)} of {len(times)} times inside, median width {widths:.0%}"
