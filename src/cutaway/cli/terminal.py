"""Writing to whatever terminal this is: never an encoding error, colours and bars only where they can be seen."""

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
    """Characters that the terminal's encoding lacks come out as escapes, not as UnicodeEncodeError.

    Bytes of standard input that are no text in it come in as escapes, which `text_argument` detects. A stream that was
    closed before we began (`>&-`; None in Python) is empty, or takes what is written and loses it.
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
    """A line for the person at the terminal, on standard error, so that standard output stays clean."""
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    say(f"cutaway: warning: {text}")


def write(text: str) -> None:
    """A piece of an answer, shown at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """One JSON object on one line of standard output. Non-ASCII characters stay, where the encoding has them."""
    import json

    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # here the stream's own escapes would not be JSON's
        text = json.dumps(value, allow_nan=False)
    print(text)


def write_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Columns, padded by the width that characters have in a terminal. right: indexes of right-aligned columns."""
    from rich.cells import cell_len

    lines = [[_as_shown(cell) for cell in line] for line in (headings, *rows)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        cells = []
        for i, (text, width) in enumerate(zip(line, widths, strict=True)):
            space = " " * (width - cell_len(text))
            cells.append(space + text if i in right else text + space)
        print("  ".join(cells).rstrip())


def _as_shown(text: str) -> str:
    """With the escapes that standard output will make of what its encoding lacks: they are wider."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


class DownloadBar:
    """A progress bar on standard error, or one line where that is no terminal. Nothing before the first report."""

    def __init__(self, name: str) -> None:
        self._text = f"fetching {name}"
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
