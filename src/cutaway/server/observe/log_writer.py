"""Writes the lines of the log: a bounded queue, and a thread that empties it.

A log may become unwritable: the disk is full, or the reader of the pipe has closed it or stopped reading (Ctrl-S). No
request waits for the log or fails because of it. Lines that cannot be written are dropped and counted. Before the first
line that can be written again, a line reports how many are missing and why.
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
IDLE_SECONDS = 5.0  # without lines, after which the thread ends; the next line starts a new one
FULL = "the queue of lines was full"
GAP = b""  # in the queue, in place of dropped lines


class LineWriter:
    """Writes lines to a stream from any thread, and never waits or raises.

    notice: makes the line that reports dropped lines from their number and the reason. lines, room: how many lines, and
    how many bytes of them, may wait. dropped: the number of lines dropped so far.
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
        self._owes = False  # whether a notice is due before the next line
        self._cut = False  # whether the last line was written in part
        self._busy = False
        self._thread: Thread | None = None
        self._changed = Condition()

    def write(self, line: str) -> None:
        """Add a line, with its line break."""
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
        """Wait until everything is written or dropped, for at most `seconds`. Returns whether it is."""
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
        """The next line, b"" for a gap; None after some time without lines, when the thread ends."""
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
        """Report dropped lines if a notice is due. Returns the reason if that fails, or ""."""
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
        """Write a line. Returns the reason if that fails, or ""."""
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
    """A line was written only in part."""


def _write_all(stream: TextIO, line: bytes) -> bool:
    """Write a line, directly to the file descriptor if there is one: a buffer would keep what it cannot write, and its
    lock. Returns False if no part of the line is missing. Raises OSError, _CutError."""
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
        except BlockingIOError:  # another program on the terminal has made it non-blocking
            select.select([], [descriptor], [], 1.0)
            continue
        except OSError as error:
            raise (_CutError(str(error)) if begun else error) from None
        line, begun = line[written:], True
    return False
