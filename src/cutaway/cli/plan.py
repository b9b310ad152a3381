"""`cutaway plan`: bytes and milliseconds of a model, before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from cutaway.cli.loading import DEFAULT_MODEL
from cutaway.cli.options import takes_options
from cutaway.cli.plan_options import PlanOptions
from cutaway.cli.terminal import say, write_json

if TYPE_CHECKING:
    from cutaway.ops.protocol import KVType
    from cutaway.xray.plan import Ask, Here
    from cutaway.xray.planned_model import PlannedModel


@takes_options
def plan(
    options: PlanOptions,
    model: Annotated[
        str, typer.Argument(help="Name, path, hf:... (its header only), config.json, or a known size: llama-3.1-70b.")
    ] = DEFAULT_MODEL,
) -> None:
    """Say what a model takes before it is loaded: bytes, times, what fits, what to change.

    Only a header is read. Times come from `cutaway bench calibrate`; without it they are unknown.
    """
    from cutaway.xray.planned_model import planned_model

    asked(options)  # invalid options are reported before anything is opened
    if options.verify:
        from cutaway.cli.plan_verify import verify

        verify(model, options)
        return
    mix = None if options.weights in (None, "all") else options.weights
    with planned_model(model, mix=mix, changes=options.set or ()) as found:
        if found.fetched is not None:
            say(f"read {found.fetched} bytes of its header; nothing is kept")
        _show(found, options)


def _show(found: PlannedModel, options: PlanOptions) -> None:
    from cutaway.cli import plan_report as report
    from cutaway.planner.devices import device_need, parse_device
    from cutaway.planner.lengths import compare, read_lengths
    from cutaway.xray import plan_json as record
    from cutaway.xray.plan import make_plan

    device = None if options.device == "this" else parse_device(options.device)
    lengths = None if options.lengths is None else read_lengths(options.lengths)
    ask, here = asked(options), this_machine(found, options)
    made = make_plan(found, ask, here)
    whole = record.plan_json(made, here.backend)
    whole["weights"] = whole["device"] = whole["lengths"] = None
    if options.weights == "all" or (options.weights is None and found.origin in ("config", "sizes")):
        whole["weights"] = [record.type_row_json(r) for r in record.type_rows(found, made.ask, here)]
    if device is not None:
        read = ask.requests * (made.ask.context or 0) * made.memory.token_bytes
        whole["device"] = record.device_json(*device_need(made.memory, found.spec, device, read))
    if lengths is not None:
        budget = _kv_budget(made.memory.kv_bytes, made.total, device.total if device else made.available)
        compared = compare(
            lengths, context=made.ask.context or 1, token_bytes=made.memory.token_bytes, budget=budget
        )  # fmt: skip
        whole["lengths"] = record.lengths_json(compared, lengths, budget, None if device else made.predictor)
    if options.svg is not None:
        options.svg.write_text(report.picture(whole), encoding="utf-8")
    if options.json:
        write_json(whole)
    else:
        report.write(whole)


def _kv_budget(kv: int, total: int, available: int | None) -> int:
    """Bytes that keys and values may take: what is left of the memory beside everything else."""
    return kv if available is None else available - (total - kv)


def asked(options: PlanOptions) -> Ask:
    """Raises ParameterError."""
    from cutaway.model import parse_rope_scaling
    from cutaway.planner import check_kv_types
    from cutaway.xray.plan import Ask

    check_kv_types(options.kv_k, options.kv_v)
    scaling = parse_rope_scaling(options.rope_scaling) if options.rope_scaling else None
    types = cast("KVType", options.kv_k), cast("KVType", options.kv_v)
    return Ask(options.context, options.requests, *types, scaling, options.ttft, options.tpot)


def this_machine(found: PlannedModel, options: PlanOptions) -> Here:
    from time import time

    from cutaway.ops.backends import open_backend
    from cutaway.planner.calibration import read_all
    from cutaway.registry.store import calibrations_folder
    from cutaway.xray.bare_process import bare_process
    from cutaway.xray.plan import Here

    backend = open_backend("native", threads=options.threads)
    process = bare_process(found.path if not found.changed else None)
    return Here(backend, backend.free_memory(), process, time(), read_all(calibrations_folder()))
