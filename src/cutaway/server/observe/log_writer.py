"""Where the log's lines go: a bounded queue, and a thread that writes it out.

A log may stop being writable: the disk is full, the reader of the pipe has gone, or it stands still (Ctrl-S). No
request waits for it or fails because of it. Lines that cannot be written are dropped and counted, and the first line
that can be written again is preceded by one that says how many are missing, and why.
"""

from __future__ import annotations

import io
import os
import select
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from time import monotonic
from typing import TextIO

MOST_LINES = 10_000
MOST_BYTES = 8 * 2**20
IDLE_SECONDS = 5.0  # without lines, after which the thread ends; the next line starts another
FULL = "the queue of lines was full"
GAP = b""  # in the queue, where lines are missing


class LineWriter:
    """Writes lines to a stream, from any thread, without ever waiting or raising.

    notice: makes the line that tells of dropped ones, of their number and the reason. lines, room: how many, and how
    many bytes of them, may wait. dropped: lines so far.
    """

    def __init__(
        self, stream: TextIO, notice: Callable[[int, str], str], *, lines: int = MOST_LINES, room: int = MOST_BYTES
    ) -> None:
        self.dropped = 0
        self._stream = stream
        self._notice = notice
        self._most_lines, self._most_bytes = lines, room
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._missing = 0  # dropped since the last notice
        self._reason = ""
        self._owes = False  # whether the notice of that is due before the next line
        self._cut = False  # whether the last line was written in part
        self._busy = False
        self._thread: Thread | None = None
        self._changed = Condition()

    def write(self, line: str) -> None:
        """Add a line, its end of line included."""
        encoded = line.encode(errors="backslashreplace")
        with self._changed:
            full = len(self._lines) >= self._most_lines or self._bytes + len(encoded) > self._most_bytes
            if full and self._lines:
                self._drop(FULL)
                if self._lines[-1] != GAP:
                    self._lines.append(GAP)
                return
            self._lines.append(encoded)
            self._bytes += len(encoded)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="cutaway-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is written or dropped, at most so long. Returns whether it is."""
        deadline = monotonic() + seconds
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._busy, deadline - monotonic())

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        self._missing += 1
        self._reason = reason

    # --- the thread -------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while (line := self._next()) is not None:
            failed = self._told() or (self._put(line) if line else "")
            with self._changed:
                if failed:
                    self._owes = True
                    if line:
                        self._drop(failed)
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> bytes | None:
        """The next line, b"" for a gap; None after a time without any, when the thread ends."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._lines), IDLE_SECONDS):
                self._thread = None
                return None
            self._busy = True
            line = self._lines.popleft()
            self._bytes -= len(line)
            self._owes |= line == GAP
            return line

    def _told(self) -> str:
        """Tell of what was dropped, where that is due. Returns why that fails, or ""."""
        with self._changed:
            missing, reason = self._missing, self._reason
        if not self._owes or not missing:
            return ""
        if failed := self._put(self._notice(missing, reason).encode()):
            return failed
        with self._changed:
            self._missing -= missing
            self._owes = False
        return ""

    def _put(self, line: bytes) -> str:
        """Write a line. Returns why that fails, or ""."""
        try:
            if self._cut:
                line = b"\n" + line
            self._cut = _write_all(self._stream, line)
        except _CutError as error:
            self._cut = True
            return str(error)
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            return str(error)
        return ""


class _CutError(OSError):
    """A line was written in part."""


def _write_all(stream: TextIO, line: bytes) -> bool:
    """Write a line; to the descriptor where there is one: a buffer would keep what it could not write, and its lock.
    Returns False: nothing of the line is missing. Raises OSError, _CutError."""
    try:
        descriptor = stream.fileno()
    except (OSError, AttributeError, io.UnsupportedOperation):
        stream.write(line.decode())
        stream.flush()
        return False
    begun = False
    while line:
        try:
            written = os.write(descriptor, line)
        except BlockingIOError:  # whoever shares the terminal made it non-blocking
            select.select([], [descriptor], [], 1.0)
            continue
        except OSError as error:
            raise (_CutError(str(error)) if begun else error) from None
        line, begun = line[written:], True
    return False
