"""What a request hears when something of the engine breaks."""

from __future__ import annotations

from cutaway.errors import CutawayError, EngineError


def as_ours(error: BaseException, what: str) -> CutawayError:
    """An error of the tree, whatever was raised, with the cause kept."""
    if isinstance(error, CutawayError):
        return error
    ours = EngineError(f"{what}: {error!r}")
    ours.__cause__ = error
    return ours
