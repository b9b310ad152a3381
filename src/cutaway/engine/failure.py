"""The error of a request when a part of the engine fails."""

from __future__ import annotations

from cutaway.errors import CutawayError, EngineError


def as_ours(error: BaseException, what: str) -> CutawayError:
    """The exception as an EngineError or another error of the tree, with the cause kept."""
    if isinstance(error, CutawayError):
        return error
    ours = EngineError(f"{what}: {error!r}")
    ours.__cause__ = error
    return ours
