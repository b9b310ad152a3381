"""Recorders. A caller checks `wants` before it builds a record, so that recording costs nothing when it is off, and
recording one request costs the others nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from io import TextIOWrapper
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Literal, Protocol, Self, TextIO, runtime_checkable

from cutaway.trace.records import Record, as_json

Kind = Literal["step", "prefix", "token"]
"""The kind of a record. That of a token includes its stages."""


@runtime_checkable
class Recorder(Protocol):
    """Receives records."""

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        """Whether records of this kind are wanted, for the request with this id, or (None) for no particular request.
        If not, the caller must not build one. Called at every step; the result may change between steps."""
        ...

    def record(self, record: Record) -> None: ...

    def close(self) -> None: ...


class NullRecorder:
    """The recorder that records nothing."""

    __slots__ = ()

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        """Never."""
        return False

    def record(self, record: Record) -> None:
        """Drop the record."""

    def close(self) -> None:
        """Nothing to close."""


NULL = NullRecorder()


class MemoryRecorder:
    """Keeps every record in `records`, in order. only: ids of the requests whose tokens and prefixes are recorded
    (None: all); steps are always recorded."""

    __slots__ = ("active", "only", "records")

    def __init__(self, only: Collection[str] | None = None) -> None:
        self.active = True
        self.only = only
        self.records: list[Record] = []

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        return self.active and (self.only is None or request is None or request in self.only)

    def record(self, record: Record) -> None:
        self.records.append(record)

    def close(self) -> None:
        """Stop recording; the records so far are kept."""
        self.active = False


class JsonlRecorder:
    """Writes one JSON object per line, flushed after each line, so that a run that dies leaves complete lines.

    Takes a path (opened for appending if `append`, otherwise overwritten) or an open text stream, which it leaves open.
    Safe to use from several threads. Raises OSError if the path cannot be written.
    """

    def __init__(self, target: Path | str | TextIO, *, append: bool = False) -> None:
        self._owned = isinstance(target, str | Path)
        self._lock = Lock()
        self.active = True
        self._stream = _opened(Path(target), append) if isinstance(target, str | Path) else target

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        return self.active

    def record(self, record: Record) -> None:
        line = json.dumps(as_json(record), ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"
        with self._lock:
            if self.active:
                self._stream.write(line)

    def close(self) -> None:
        """Write the remaining lines and close; may be called twice."""
        with self._lock:
            if not self.active:
                return
            self.active = False
            self._stream.flush()
            if self._owned:
                self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _opened(path: Path, append: bool) -> TextIOWrapper:
    return path.open("a" if append else "w", encoding="utf-8", buffering=1, newline="\n")
