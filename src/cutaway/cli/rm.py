"""`cutaway rm`: remove models from the cache."""

from __future__ import annotations

from typing import Annotated

import typer

from cutaway.cli.terminal import say


def rm(
    names: Annotated[list[str], typer.Argument(help="Names as `cutaway models` shows them, file names, or hashes.")],
) -> None:
    """Remove models from the cache. Files outside the cache are never touched."""
    from cutaway.planner import readable_bytes
    from cutaway.registry import remove

    for name in names:
        manifest = remove(name)
        say(f"removed {manifest.name} ({manifest.sha256[:12]}): {readable_bytes(manifest.size)} freed")
