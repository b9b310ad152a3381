"""`cutaway doctor`: what is wrong, with evidence, cause and remedy."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli.columns import WIDTH, wrapped
from cutaway.cli.terminal import write_json

if TYPE_CHECKING:
    from cutaway.xray.doctor.checks import Examination


def doctor(
    *,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL|URL|CONFIG|FILE|REQUEST]", help="What is examined. [this machine and its servers]"
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model of a FILE or REQUEST.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="A server to look at as well, or of REQUEST.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Read large files as a whole, and compute to see the clock.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of text.")] = False,
) -> None:
    """Find what is wrong: with a model, a server, a config, a text file, a request or this machine.

    Each finding has its evidence, cause and remedy. No weights are loaded and nothing is downloaded. The exit status
    is 4 if there is an error, 3 if there is a warning, otherwise 0.
    """
    from cutaway.xray.doctor.argument import subject_of
    from cutaway.xray.doctor.checks import examination_json, examine

    examined = subject_of(subject, model=model, url=url, measure=measure)
    try:
        found = examine(examined)
    finally:
        examined.close()
    if as_json:
        write_json(examination_json(found))
    else:
        _write(found)
    raise typer.Exit(found.status)


def _write(found: Examination) -> None:
    for one in found.findings:
        print(wrapped(f"{one.severity} [{one.code}]: {one.what}", WIDTH))
        for name, text in (("evidence", one.evidence), ("cause", one.cause), ("remedy", one.remedy)):
            if text:
                print("  " + wrapped(f"{name}: {text}", WIDTH - 4).replace("\n", "\n    "))
    counts = Counter(one.severity for one in found.findings)
    told = ", ".join(f"{counts[name]} {name}" for name in ("error", "warning", "note", "unknown") if counts[name])
    if found.findings:
        print()
    print(f"{len(found.checks)} checks in {found.seconds:.1f} s: {told or 'nothing is wrong'}")
