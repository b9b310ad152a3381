"""`cutaway presets`: sampling parameters by task."""

from __future__ import annotations

from typing import Annotated

import typer

from cutaway.cli.terminal import write_json, write_table


def presets(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """List the sampling presets. An option given beside --preset overrides it."""
    from cutaway.sampling import PRESETS

    if as_json:
        write_json({p.name: {"use": p.use, **p.options} for p in PRESETS.values()})
        return
    names = ["temperature", "top_p", "top_k"]
    rows = [[p.name, *(f"{p.options[n]:g}" for n in names), p.use] for p in PRESETS.values()]
    write_table(["preset", *names, "for"], rows, right=[1, 2, 3])
    print("\ntop_k 0 is off; temperature 0 always takes the most probable token")
