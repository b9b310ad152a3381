"""`cutaway models`: the models on this machine and in the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from cutaway.cli.terminal import say, write_json, write_table


def models(
    everything: Annotated[bool, typer.Option("--all", help="Also list the catalogue's other models.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check the hash of every file; stop at a mismatch.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of a table.")] = False,
) -> None:
    """List the models in the cache with name, size, hash, last use, licence and source."""
    import dataclasses
    import time

    from cutaway import registry
    from cutaway.planner import readable_bytes

    here = registry.models()
    if verify:
        for model in here:
            registry.verify(model.manifest)
            say(f"{model.manifest.name}: the hash of every file matches")
    if as_json:
        write_json(
            {
                "home": str(registry.home()),
                "models": [
                    {**dataclasses.asdict(m.manifest), "path": str(m.path), "last_use": m.last_use} for m in here
                ],
                "catalogue": [dataclasses.asdict(e) for e in registry.known_models()] if everything else None,
            }
        )
        return
    if here:
        rows = [
            [
                m.manifest.name, readable_bytes(m.manifest.size), m.manifest.sha256[:12],
                time.strftime("%Y-%m-%d %H:%M", time.localtime(m.last_use)), m.manifest.licence,
                shortened(m.manifest.source),
            ]
            for m in here
        ]  # fmt: skip
        write_table(["name", "size", "sha256", "last use", "licence", "source"], rows, right=[1])
    else:
        say(f"no models in {registry.home()}; download one with: cutaway pull smollm2-135m")
    if everything:
        names = {m.manifest.name for m in here}
        rest = [e for e in registry.known_models() if e.name not in names]
        print()
        rows = [[e.name, e.parameters, e.licence, e.note, shortened(e.sources[0].at)] for e in rest]
        write_table(["not downloaded", "parameters", "licence", "note", "source"], rows, right=[1])


def shortened(source: str) -> str:
    """A source, with a list of packages reduced to the first and their number."""
    first, comma, rest = source.partition(",")
    return f"{first} and {rest.count(',') + 1} more" if comma else first
