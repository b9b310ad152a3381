"""Text within the columns of a terminal, where Chinese characters take two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutaway.cli.terminal import visible

WIDTH = 100


def shown(text: str) -> str:
    """A text on one line of a table, with visible control characters and outer spaces."""
    marked = visible(text)
    return f"'{marked}'" if marked != marked.strip() or not marked else marked


def shortened(text: str, width: int) -> str:
    """In one line of at most so many columns, the middle left out."""
    from rich.cells import cell_len, set_cell_size

    line = shown(text)
    if cell_len(line) <= width:
        return line
    tail = line[-1]
    while cell_len(tail) < width // 3:
        tail = line[-len(tail) - 1 :]
    return set_cell_size(line, width - 3 - cell_len(tail)).rstrip() + "..." + tail


def wrapped(text: str, width: int) -> str:
    """In lines of at most so many columns, all but the first indented; a word without blanks is cut where it must."""
    from rich.cells import cell_len

    lines, line = [], ""
    for word in visible(text).split(" "):
        if line.strip() and cell_len(line) + cell_len(word) + 1 > width:
            lines.append(line)
            line = " "
        line += (" " if line else "") + word
        while cell_len(line) > width:
            cut = next(at for at in range(len(line), 0, -1) if cell_len(line[:at]) <= width)
            lines.append(line[:cut])
            line = "  " + line[cut:]
    return "\n".join([*lines, line])


def print_findings(findings: Sequence[Any], width: int) -> None:
    """A paragraph each, after an empty line. Of each finding: code, token, what."""
    if findings:
        print()
    for finding in findings:
        at = "" if finding.token is None else f" at token {finding.token}"
        print(wrapped(f"! {finding.code}{at}: {finding.what}", width))
