"""Where records go. A caller asks `active` before it builds a record, so that looking is free when nobody looks."""

from __future__ import annotations

import json
from io import TextIOWrapper
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Protocol, Self, TextIO, runtime_checkable

from cutaway.trace.records import Record, as_json


@runtime_checkable
class Recorder(Protocol):
    """Takes records. `active` False: the caller must not go to any trouble to make one."""

    @property
    def active(self) -> bool: ...

    def record(self, record: Record) -> None: ...

    def close(self) -> None: ...


class NullRecorder:
    """Nobody looks."""

    __slots__ = ()
    active = False

    def record(self, record: Record) -> None:
        """Drops it."""

    def close(self) -> None:
        """Nothing to close."""


NULL = NullRecorder()


class MemoryRecorder:
    """Keeps every record in `records`, in order."""

    __slots__ = ("active", "records")

    def __init__(self) -> None:
        self.active = True
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        self.records.append(record)

    def close(self) -> None:
        """Stops taking records; those it has stay."""
        self.active = False


class JsonlRecorder:
    """Writes one JSON object a line, flushed at each line, so that a run that dies leaves whole lines.

    Takes a path (opened for appending when `append`, else anew) or an open text stream, which it leaves open.
    Safe to use from several threads. Raises OSError where the path cannot be written.
    """

    def __init__(self, target: Path | str | TextIO, *, append: bool = False) -> None:
        self._owned = isinstance(target, str | Path)
        self._lock = Lock()
        self.active = True
        self._stream = _opened(Path(target), append) if isinstance(target, str | Path) else target

    def record(self, record: Record) -> None:
        line = json.dumps(as_json(record), ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"
        with self._lock:
            if self.active:
                self._stream.write(line)

    def close(self) -> None:
        """Writes out what is left; closing twice is harmless."""
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
