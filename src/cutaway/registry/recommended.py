"""The recommendations of a model's makers, if the catalogue has them."""

from __future__ import annotations

from collections.abc import Mapping

from cutaway.registry.catalogue import entry_named
from cutaway.registry.store import Manifest


def recommended(manifest: Manifest | None) -> Mapping[str, float]:
    """Sampling parameters; empty if there is no recommendation, or if the registry does not know the file."""
    entry = None if manifest is None else entry_named(manifest.name)
    return {} if entry is None else entry.sampling
