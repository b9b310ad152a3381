"""Recorders as they were before 0.2, which say only whether they take anything. They work until 0.3."""

from __future__ import annotations

import warnings
from typing import Any

from cutaway.trace.recorders import Kind, Recorder
from cutaway.trace.records import Record


def with_wants(recorder: Recorder) -> Recorder:
    """The recorder itself, or one with `wants` around an older one that has `active` in its place.

    Raises TypeError for what is no recorder.
    """
    if hasattr(recorder, "wants"):
        return recorder
    kind = type(recorder).__name__
    if not hasattr(recorder, "active") or not hasattr(recorder, "record"):
        raise TypeError(f"{kind} is no recorder: it needs wants(kind, request), record(record) and close()")
    warnings.warn(
        f"{kind} has `active` and no `wants(kind, request)`; recorders need it from version 0.3 on",
        DeprecationWarning, stacklevel=4,
    )  # fmt: skip
    return _Older(recorder)


class _Older:
    __slots__ = ("_recorder",)

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        """Everything, while it is active."""
        return bool(self._recorder.active)

    def record(self, record: Record) -> None:
        self._recorder.record(record)

    def close(self) -> None:
        self._recorder.close()
