"""A text as a strip of tokens: under each a digit for the probability that the model gave it, and where it can be
seen a colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

COLOURS = (196, 202, 208, 214, 220, 190, 154, 118, 82, 46)
"""Of 256: from red (0 to 10 %) to green (90 % and more)."""
LEGEND = "digit: tenths of the probability that the model gave the token; * where its form was forced"


def print_strip(tokens: Sequence[tuple[str, float, bool]], width: int = 100) -> None:
    """tokens: text, probability, forced. Two lines of at most `width` columns at a time."""
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    for line in strip_lines(tokens, width):
        print("".join(_painted(text, p, forced) if coloured else text for text, p, forced in line).rstrip())
        print("".join(_under(text, p, forced) for text, p, forced in line).rstrip())


def strip_lines(tokens: Sequence[tuple[str, float, bool]], width: int) -> Iterator[list[tuple[str, float, bool]]]:
    """The tokens in lines: a line ends behind a token with a line break, and where the next one has no room."""
    from rich.cells import cell_len

    line: list[tuple[str, float, bool]] = []
    used = 0
    for text, probability, forced in tokens:
        shown = seen(text)
        cells = cell_len(shown)
        if line and used + cells > width:
            yield line
            line, used = [], 0
        line.append((shown, probability, forced))
        used += cells
        if "\n" in text:
            yield line
            line, used = [], 0
    if line:
        yield line


def seen(text: str) -> str:
    """At least one column wide: what cannot be seen as an escape; what the terminal cannot show, too."""
    marked = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    return marked.encode(encoding, "backslashreplace").decode(encoding) or "''"


def _digit(probability: float, forced: bool) -> str:
    return "*" if forced else str(min(9, int(probability * 10)))


def _under(text: str, probability: float, forced: bool) -> str:
    """The digit under the token's first letter."""
    from rich.cells import cell_len

    lead = len(text) - len(text.lstrip(" ")) if text.strip() else 0
    return " " * lead + _digit(probability, forced) + " " * max(0, cell_len(text) - lead - 1)


def _painted(text: str, probability: float, forced: bool) -> str:
    if forced:
        return f"\x1b[2m{text}\x1b[0m"
    return f"\x1b[38;5;{COLOURS[min(9, int(probability * 10))]}m{text}\x1b[0m"
