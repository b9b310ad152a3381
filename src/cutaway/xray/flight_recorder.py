"""The records of the last requests: in memory within bounds of bytes, age and count; on disk only with `--record`."""

from __future__ import annotations

import contextlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Full, Queue
from threading import Lock, Thread

from cutaway.xray.record import Level, RequestRecord
from cutaway.xray.record_json import dump_record
from cutaway.xray.recorded import Kept
from cutaway.xray.server_state import private_folder, write_private

_NAME = re.compile(r"[0-9a-f]{16}\.json")
_WAITING = 256


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is kept at most: bytes, seconds since an answer ended, records."""

    size: int = 64 * 2**20
    seconds: float = 3600.0
    count: int = 10_000


class FlightRecorder:
    """Written from the engines' threads and the event loop, read from any. level: of what is kept; None: nothing is.

    folder: takes each record as a file, too, within the same bounds. Raises ConfigError, OSError.
    """

    def __init__(
        self, level: Level | None = "contents", bounds: Bounds | None = None, folder: Path | None = None,
        *, clock: Callable[[], float] = time.time, failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.level = level
        self.bounds = bounds or Bounds()
        self.size = 0
        self.dropped = 0  # by the bounds
        self._clock = clock
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = Lock()
        self._disk = Disk(folder, self.bounds, failed) if folder is not None else None

    def add(self, one: Kept) -> None:
        """Costs microseconds. What is beyond the bounds goes, the oldest first."""
        with self._lock:
            self._kept[one.id] = one
            self.size += one.size
            self._drop()
        if self._disk is not None:
            self._disk.add(one)

    def _drop(self) -> None:
        """The lock is held. Records stand in the order in which they ended."""
        oldest = self._clock() - self.bounds.seconds
        while self._kept:
            first = next(iter(self._kept.values()))
            within = self.size <= self.bounds.size and len(self._kept) <= self.bounds.count
            if within and first.ended >= oldest:
                return
            self._kept.popitem(last=False)
            self.size -= first.size
            self.dropped += 1

    def __len__(self) -> int:
        with self._lock:
            self._drop()
            return len(self._kept)

    def heads(self) -> Iterator[RequestRecord]:
        """The records without their lists, the latest first."""
        with self._lock:
            self._drop()
            found = list(self._kept.values())
        return (one.head for one in reversed(found))

    def find(self, name: str, may_see: Callable[[str], bool]) -> RequestRecord | None:
        """By its own id, or the latest one with that x-request-id (its first answer); of callers that `may_see`."""
        with self._lock:
            self._drop()
            exact, found = self._kept.get(name), list(self._kept.values())
        if exact is not None and may_see(exact.head.caller):
            return exact.record()
        named = [one for one in reversed(found) if one.head.request == name and may_see(one.head.caller)]
        if not named:
            return None
        last = named[0].head
        same = [one for one in named if (one.head.began, one.head.caller) == (last.began, last.caller)]
        return min(same, key=lambda one: (one.head.prompt, one.head.choice)).record()

    def close(self) -> None:
        """Waits until what was to be on disk is."""
        if self._disk is not None:
            self._disk.close()


class Disk:
    """Records as files of this user alone, each written as a whole by a thread of its own. What is beyond the bounds
    goes, the oldest first, also what an earlier server left there. failed: called once if a file cannot be written."""

    def __init__(self, folder: Path, bounds: Bounds, failed: Callable[[str], None]) -> None:
        self._folder = private_folder(folder, ours=False)
        self._bounds = bounds
        self._failed = failed
        self.lost = 0
        self._queue: Queue[Kept | None] = Queue(_WAITING)
        self._thread = Thread(target=self._run, name="cutaway-records", daemon=True)
        self._thread.start()

    def add(self, one: Kept) -> None:
        """Never waits: where the disk is too slow, a record is lost, and counted."""
        try:
            self._queue.put_nowait(one)
        except Full:
            self._lose("the disk is too slow")

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(30)

    def _run(self) -> None:
        while (one := self._queue.get()) is not None:
            try:
                write_private(self._folder / f"{one.id}.json", dump_record(one.record()))
                self._drop()
            except Exception as error:
                self._lose(str(error))

    def _lose(self, why: str) -> None:
        self.lost += 1
        if self.lost == 1:
            self._failed(why)

    def _drop(self) -> None:
        """Only files whose names are those of records; whatever else is there stays."""
        found = []
        for path in self._folder.iterdir():
            if _NAME.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    state = path.lstat()
                    found.append((state.st_mtime, state.st_size, path))
        found.sort(key=lambda file: file[0], reverse=True)
        size = count = 0
        oldest = time.time() - self._bounds.seconds
        for modified, bytes_, path in found:
            size, count = size + bytes_, count + 1
            if size > self._bounds.size or count > self._bounds.count or modified < oldest:
                path.unlink(missing_ok=True)
