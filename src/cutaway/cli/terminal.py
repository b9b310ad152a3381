"""Output to terminals of every kind: no encoding errors, colours and progress bars only where they can be shown."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


def prepare_streams() -> None:
    """Write characters that the terminal's encoding lacks as escapes instead of raising UnicodeEncodeError.

    Undecodable bytes of standard input are read as escapes, which `text_argument` detects. A stream that was closed
    at the start (`>&-`; None in Python) is replaced by the null device.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")


def say(text: str) -> None:
    """Print a line for the user on standard error, so that standard output contains only the answer."""
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    say(f"cutaway: warning: {text}")


def write(text: str) -> None:
    """Write a piece of an answer and flush it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """Write one JSON object on one line. Non-ASCII characters are kept if the encoding of standard output has them."""
    import json

    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # the stream's own escapes would not be valid JSON
        text = json.dumps(value, allow_nan=False)
    print(text)


def visible(text: str) -> str:
    """Characters that move the cursor, colour or hide something as escapes: others may have chosen the text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def write_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Write columns, padded to the width of their characters on a terminal. right: indexes of right-aligned columns."""
    from rich.cells import cell_len

    lines = [[as_shown(cell) for cell in line] for line in (headings, *rows)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        cells = []
        for i, (text, width) in enumerate(zip(line, widths, strict=True)):
            space = " " * (width - cell_len(text))
            cells.append(space + text if i in right else text + space)
        print("  ".join(cells).rstrip())


def as_shown(text: str) -> str:
    """With the escapes that standard output will write for characters it lacks, which are wider."""
    encoding = sys.stdout.encoding or "utf-8"
    return visible(text).encode(encoding, "backslashreplace").decode(encoding)


class DownloadBar:
    """A progress bar on standard error, or one line if that is not a terminal. It appears with the first report."""

    def __init__(self, name: str) -> None:
        self._text = f"downloading {name}"
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._begun = False

    def __call__(self, done: int, total: int | None) -> None:
        if not self._begun:
            self._begin()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def _begin(self) -> None:
        self._begun = True
        if not sys.stderr.isatty():
            say(self._text)
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()]
        self._bar = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
        self._task = self._bar.add_task(self._text, total=None)
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
