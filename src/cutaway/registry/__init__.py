"""Models by name: where they come from, whether they arrived whole, where they are kept."""

from cutaway.registry.catalogue import Entry, known_models
from cutaway.registry.progress import Progress
from cutaway.registry.resolution import Resolved, StoredModel, models, remove, resolve, verify
from cutaway.registry.store import Manifest, home

__all__ = [
    "Entry",
    "Manifest",
    "Progress",
    "Resolved",
    "StoredModel",
    "home",
    "known_models",
    "models",
    "remove",
    "resolve",
    "verify",
]
