"""What the makers of a model recommend, for one that the catalogue knows."""

from __future__ import annotations

from collections.abc import Mapping

from cutaway.registry.catalogue import entry_named
from cutaway.registry.store import Manifest


def recommended(manifest: Manifest | None) -> Mapping[str, float]:
    """Sampling parameters; none where nobody recommends any, or for a file that the registry does not know."""
    entry = None if manifest is None else entry_named(manifest.name)
    return {} if entry is None else entry.sampling
