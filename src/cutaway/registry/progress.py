"""The progress of a download, measured from outside by the size of its folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived and the bytes expected (None if not known)."""

_INTERVAL = 0.1  # seconds


@contextlib.contextmanager
def watched(folder: Path, total: int | None, progress: Progress | None) -> Iterator[None]:
    """Report the growth of a folder while the body runs, in a separate thread; never a step back, never above the
    total.

    pip and the hub's client have no common callback, but both write into the given folder.
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
        with contextlib.suppress(OSError):  # it was moved or removed after it was listed
            if path.is_file():
                total += path.stat().st_size
    return total
