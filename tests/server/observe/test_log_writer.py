"""Logs that cannot be written, with real pipes and devices: lost lines are counted, and nothing waits."""

from __future__ import annotations

import fcntl
import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import pytest

from cutaway.config import LoggingConfig
from cutaway.server.observe import log_writer
from cutaway.server.observe.log_writer import FULL, LineWriter
from cutaway.server.observe.logs import Log
from server.serving import until


def notice(missing: int, reason: str) -> str:
    return f"<{missing} missing: {reason}>\n"


@contextmanager
def pipe() -> Iterator[tuple[int, TextIO]]:
    """A descriptor to read from, and a stream to write to."""
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w", encoding="utf-8")
    try:
        yield reading, stream
    finally:
        for end in (lambda: os.close(reading), stream.close):
            with suppress(OSError):
                end()


def everything(reading: int, seconds: float = 0.5) -> str:
    """What comes until nothing does for a while."""
    os.set_blocking(reading, False)
    parts, quiet = [], time.monotonic()
    while time.monotonic() - quiet < seconds:
        try:
            parts.append(os.read(reading, 65536))
            quiet = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    return b"".join(parts).decode()


def test_lines_come_in_order_from_many_and_nothing_is_lost() -> None:
    stream = io.StringIO()
    writer = LineWriter(stream, notice)
    for number in range(5000):
        writer.write(f"{number}\n")
    assert writer.flush(10)
    assert stream.getvalue().split() == [str(n) for n in range(5000)] and writer.dropped == 0


def test_a_reader_that_stands_still_holds_nobody_up() -> None:
    """After the pipe is full, lines wait, then are dropped; when it reads on, the gap is where it was."""
    with pipe() as (reading, stream):
        writer = LineWriter(stream, notice, lines=1000)
        for number in range(900):
            writer.write(f"{number} {'x' * 100}\n")
        assert not writer.flush(0.3)  # the pipe is full
        began = time.monotonic()
        for number in range(900, 3000):
            writer.write(f"{number} {'x' * 100}\n")
        assert time.monotonic() - began < 2.0 and not writer.flush(0.05)
        lost = writer.dropped
        assert 1000 < lost < 3000
        lines = everything(reading).splitlines()
        writer.write("again\n")
        assert writer.flush(10)
        assert lines[-1] == notice(lost, FULL).strip() and everything(reading) == "again\n"
        assert [int(line.split()[0]) for line in lines[:-1]] == list(range(3000 - lost))


def test_a_reader_that_has_gone() -> None:
    with pipe() as (reading, stream):
        os.close(reading)
        writer = LineWriter(stream, notice)
        for _ in range(50):
            writer.write("line\n")
        assert writer.flush(10) and writer.dropped == 50


def test_a_disk_that_is_full_and_has_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        writer = LineWriter(full, notice)
        writer.write("one\n")
        writer.write("two\n")
        assert writer.flush(10) and writer.dropped == 2
        with (tmp_path / "log").open("w") as room:
            os.dup2(room.fileno(), full.fileno())
            writer.write("three\n")
            assert writer.flush(10) and writer.dropped == 2
        written = (tmp_path / "log").read_text().splitlines()
        assert written == ["<2 missing: [Errno 28] No space left on device>", "three"]


def test_a_line_that_was_cut_is_ended_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.write, 0

    def write(descriptor: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return real(descriptor, data[:3])
        if calls == 2:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    with (tmp_path / "log").open("w") as stream:
        writer = LineWriter(stream, notice)
        monkeypatch.setattr(log_writer.os, "write", write)
        writer.write("first\n")
        writer.write("second\n")
        assert writer.flush(10) and writer.dropped == 1
    assert (tmp_path / "log").read_text().splitlines() == [
        "fir", "<1 missing: [Errno 28] No space left on device>", "second",
    ]  # fmt: skip


def test_a_terminal_that_another_made_non_blocking() -> None:
    with pipe() as (reading, stream):
        flags = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL)
        fcntl.fcntl(stream.fileno(), fcntl.F_SETFL, flags | os.O_NONBLOCK)
        writer = LineWriter(stream, notice, lines=5_000)
        for number in range(2000):
            writer.write(f"{number} {'x' * 100}\n")
        lines = everything(reading, 2.5).splitlines()
        assert [int(line.split()[0]) for line in lines] == list(range(2000)) and writer.dropped == 0


def test_bytes_are_bounded_too_and_a_long_line_passes() -> None:
    with pipe() as (reading, stream):
        writer = LineWriter(stream, notice, room=200_000)
        for _ in range(100):
            writer.write("x" * 70_000 + "\n")
        assert writer.dropped >= 90 and writer._bytes <= 200_000
        everything(reading)
        writer.write("y" * 300_000 + "\n")
        assert "y" * 300_000 in everything(reading)


def test_a_closed_stream_and_half_a_surrogate_raise_nothing() -> None:
    stream = io.StringIO()
    log = Log(LoggingConfig(format="json"), stream)
    log.info("odd", text="\ud800")
    assert log.flush(10) and "ud800" in stream.getvalue()
    stream.close()
    log.info("lost")
    assert log.flush(10) and log.dropped == 1


def test_the_notice_is_a_line_of_the_logs_own_form() -> None:
    with Path("/dev/full").open("w") as full, pipe() as (reading, stream):
        log = Log(LoggingConfig(format="json"), full)
        log.info("lost")
        assert log.flush(10)
        os.dup2(stream.fileno(), full.fileno())
        log.info("kept")
        told, kept = map(json.loads, everything(reading).splitlines())
        assert (told["event"], told["dropped"], told["level"]) == ("log lines were dropped", 1, "warning")
        assert "timestamp" in told and kept["event"] == "kept"


def test_the_thread_ends_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "IDLE_SECONDS", 0.05)
    stream = io.StringIO()
    writer = LineWriter(stream, notice)
    writer.write("one\n")
    until(lambda: writer._thread is None)
    writer.write("two\n")
    assert writer.flush(10) and stream.getvalue() == "one\ntwo\n"
