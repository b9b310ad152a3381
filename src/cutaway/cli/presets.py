"""`cutaway presets`: sampling parameters by task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cutaway.cli.terminal import write_json, write_table


def presets(
    model: Annotated[str | None, typer.Argument(help="Model for which `chat` is shown. [smollm2-135m]")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of a table.")] = False,
) -> None:
    """List the sampling presets and the source of their values. Other options override those of --preset."""
    from cutaway.cli.loading import DEFAULT_MODEL
    from cutaway.sampling import PRESETS, preset

    named = model or DEFAULT_MODEL
    own, source = _own(named)
    values = {name: preset(name, {}, own if name == "chat" else {}) for name in PRESETS}
    origins = {name: source if name == "chat" else "preset" for name in PRESETS}
    names = ["temperature", "top_p", "top_k"]
    names += [name for name in own if name not in names]
    if as_json:
        write_json(
            {
                p.name: {"use": p.use, **{n: getattr(values[p.name], n) for n in names}, "from": origins[p.name]}
                for p in PRESETS.values()
            }
        )
        return
    rows = [
        [p.name, *(f"{getattr(values[p.name], n):g}" for n in names), origins[p.name], p.use] for p in PRESETS.values()
    ]
    write_table(["preset", *names, "from", "for"], rows, right=range(1, len(names) + 1))
    print(f"\nchat is shown for {named}; top_k 0 is off; temperature 0 always takes the most probable token")


def _own(model: str) -> tuple[Mapping[str, Any], str]:
    """The values of `chat` for a model and their source. A model that is not on this machine is not downloaded."""
    from cutaway.errors import CutawayError
    from cutaway.formats import open_model
    from cutaway.registry import entry_named, recommended, resolve
    from cutaway.sampling import generation_settings, own_options

    entry = entry_named(model)
    listed = {} if entry is None else entry.sampling
    try:
        found = resolve(model, pull=False)
    except CutawayError:
        if entry is None:
            raise
    else:
        with open_model(found.path) as file:
            if found_in_file := own_options(generation_settings(file.path, file.metadata)):
                return found_in_file, "model's file"
        listed = recommended(found.manifest)
    return listed, "catalogue" if listed else "preset"
