"""Models by name: their sources, the check of their hashes, and their storage."""

from cutaway.registry.catalogue import Entry, entry_named, known_models, smallest_that_knows
from cutaway.registry.progress import Progress
from cutaway.registry.recommended import recommended
from cutaway.registry.resolution import Resolved, StoredModel, models, remove, resolve, verify
from cutaway.registry.store import Manifest, home

__all__ = [
    "Entry",
    "Manifest",
    "Progress",
    "Resolved",
    "StoredModel",
    "entry_named",
    "home",
    "known_models",
    "models",
    "recommended",
    "remove",
    "resolve",
    "smallest_that_knows",
    "verify",
]
