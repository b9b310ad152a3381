"""Where records go. A caller asks `wants` before it builds a record, so that looking is free when nobody looks, and
looking at one request costs the others nothing."""

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
"""What a record is of. A token's has its stages in it."""


@runtime_checkable
class Recorder(Protocol):
    """Takes records."""

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        """Whether records of this kind are taken, of the request with this id, or (None) of none in particular. If
        not, the caller must not go to any trouble to make one. Called at every step, and may change from one to the
        next."""
        ...

    def record(self, record: Record) -> None: ...

    def close(self) -> None: ...


class NullRecorder:
    """Nobody looks."""

    __slots__ = ()

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        """Never."""
        return False

    def record(self, record: Record) -> None:
        """Drops it."""

    def close(self) -> None:
        """Nothing to close."""


NULL = NullRecorder()


class MemoryRecorder:
    """Keeps every record in `records`, in order. only: ids of the requests whose tokens and prefixes are wanted (None:
    of all); steps are recorded in any case."""

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

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        return self.active

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
