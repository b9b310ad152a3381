"""`cutaway bench calibrate`: what the planner knows of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

import typer

from cutaway.cli.loading import DEFAULT_MODEL, model_on_disk
from cutaway.cli.options import option, takes_options
from cutaway.cli.terminal import say, warn, write_json, write_table


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """How the model is loaded, and for how long it is measured."""

    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None
    kv_k: Annotated[str, option("--kv-k", help="Type of keys: bf16, f32, int8, fp8. [bf16]")] = "bf16"
    kv_v: Annotated[str, option("--kv-v", help="Type of values: the same. [bf16]")] = "bf16"
    seconds: Annotated[float, option("--seconds", help="After so long no further measurement begins. [240]")] = 240.0
    as_json: Annotated[bool, option("--json", help="One JSON object instead of a table.")] = False


@takes_options
def calibrate(
    options: CalibrateOptions,
    model: Annotated[str, typer.Argument(help="Name, path or source.")] = DEFAULT_MODEL,
) -> None:
    """Time a model as a server runs it, and keep the figures for `cutaway plan`.

    Two to four minutes, which should be quiet: how busy the machine was is kept with them.
    """
    from dataclasses import asdict

    from cutaway.bench.calibrate import calibrate as measure
    from cutaway.ops.protocol import KVType
    from cutaway.planner import check_kv_types
    from cutaway.planner.calibration import fit, save
    from cutaway.planner.latency import MOST_BUSY
    from cutaway.registry.store import calibrations_folder

    check_kv_types(options.kv_k, options.kv_v)
    types = cast(KVType, options.kv_k), cast(KVType, options.kv_v)
    made = measure(
        model_on_disk(model).path, model, kv_k=types[0], kv_v=types[1], threads=options.threads,
        seconds=options.seconds, progress=say,
    )  # fmt: skip
    path = save(made, calibrations_folder())
    if made.busy is not None and made.busy > MOST_BUSY:
        warn(f"other processes took {made.busy:.0%} of the processors: what is planned from this is not relied upon")
    if options.as_json:
        write_json({"file": str(path), **asdict(made)})
        return
    lines = fit(made)
    rows = []
    for s in made.samples:
        middle, predicted = sorted(s.ms)[len(s.ms) // 2], lines.first(s.context) if s.first else lines.each(
            s.requests, s.context
        )  # fmt: skip
        what = "first token" if s.first else "each further"
        rows.append([what, str(s.requests), str(s.context), f"{middle:.1f}", f"{predicted:.1f}"])
    write_table(["", "at once", "context", "ms", "line"], rows, right=range(1, 5))
    spreads = f"{lines.first_spread:.1%} (first) and {lines.each_spread:.1%} (further)"
    print(f"\nnine of ten lie within {spreads} of the lines")
    say(f"kept as {path}")
