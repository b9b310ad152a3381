"""A text as a strip of tokens: under each a digit for the probability that the model gave it, and where it can be
seen a colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutaway.cli.terminal import as_shown

COLOURS = (196, 202, 208, 214, 220, 190, 154, 118, 82, 46)
"""Of 256: from red (0 to 10 %) to green (90 % and more)."""
LEGEND = "digit: tenths of the probability that the model gave the token; * where its form was forced"


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands in the strip: a token's text, or a character that several tokens make. tokens: the probability of
    each, and whether it was forced."""

    text: str
    tokens: tuple[tuple[float, bool], ...]

    @property
    def shown(self) -> str:
        """At least one column wide: what cannot be seen as an escape; what the terminal cannot show, too."""
        return as_shown(self.text) or "''"

    @property
    def digits(self) -> str:
        return "".join("*" if forced else str(min(9, int(p * 10))) for p, forced in self.tokens)

    @property
    def lead(self) -> int:
        """Columns before the first letter, under which the digits stand."""
        shown = self.shown
        return len(shown) - len(shown.lstrip(" ")) if shown.strip() else 0

    @property
    def width(self) -> int:
        from rich.cells import cell_len

        return max(cell_len(self.shown), self.lead + len(self.digits))

    @property
    def colour(self) -> str:
        """Of its least probable token; dim where all were forced."""
        free = [p for p, forced in self.tokens if not forced]
        return f"\x1b[38;5;{COLOURS[min(9, int(min(free) * 10))]}m" if free else "\x1b[2m"


def print_strip(pieces: Sequence[Piece], width: int = 100) -> None:
    """Two lines of at most `width` columns at a time."""
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    for line in strip_lines(pieces, width):
        print("".join(_padded(piece, coloured=coloured) for piece in line).rstrip())
        print("".join((" " * piece.lead + piece.digits).ljust(piece.width) for piece in line).rstrip())


def strip_lines(pieces: Sequence[Piece], width: int) -> Iterator[list[Piece]]:
    """In lines: one ends behind a line break of the text, and where the next piece has no room."""
    line: list[Piece] = []
    for piece in pieces:
        if line and sum(one.width for one in line) + piece.width > width:
            yield line
            line = []
        line.append(piece)
        if "\n" in piece.text:
            yield line
            line = []
    if line:
        yield line


def _padded(piece: Piece, *, coloured: bool) -> str:
    from rich.cells import cell_len

    text = piece.shown
    space = " " * (piece.width - cell_len(text))
    return f"{piece.colour}{text}\x1b[0m{space}" if coloured else text + space
