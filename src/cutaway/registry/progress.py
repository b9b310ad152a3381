"""How far a download has come, seen from outside: the bytes that lie in its folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived and the bytes expected (None if that is not known)."""

_INTERVAL = 0.1  # seconds


@contextlib.contextmanager
def watched(folder: Path, total: int | None, progress: Progress | None) -> Iterator[None]:
    """Report the growth of a folder while the body runs, from a thread of its own; never a step back, never over total.

    pip and the hub's client have no callback in common, but both write into the folder that they are given.
    """
    if progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        most = 0
        while not done.wait(_INTERVAL):
            most = max(most, _bytes_in(folder))
            progress(most if total is None else min(most, total), total)

    thread = threading.Thread(target=watch, name="cutaway-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # it was moved or removed between the listing and the look
            if path.is_file():
                total += path.stat().st_size
    return total
