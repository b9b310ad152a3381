"""The strip of tokens: readable without colours, aligned by the width that characters have."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from cutaway.cli.explain_text import pieces
from cutaway.cli.token_strip import Piece, print_strip, strip_lines


def piece(text: str, *tokens: float, forced: bool = False) -> Piece:
    return Piece(text, tuple((p, forced) for p in tokens))


def test_digits_stand_under_their_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    print_strip(
        [piece("The", 0.95), piece(" cat", 0.42), piece(" 坐在", 0.07), piece("那里", 1.0, forced=True),
         piece("\n", 0.5), piece("", 0.2), piece("서", 0.6, 0.45, 0.31), piece(".", 0.999)]
    )  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "The cat 坐在那里\\n",
        "9   4   0   *   5",
        "''서 .",
        "2 6439",
    ]


def test_lines_are_no_wider_than_the_terminal() -> None:
    given = [piece("数据库", 0.5), piece(" word", 0.5)] * 40
    lines = list(strip_lines(given, 100))
    assert [one for line in lines for one in line] == given
    assert all(88 < sum(one.width for one in line) <= 100 for line in lines[:-1])


def test_a_terminal_gets_colours_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        encoding = "ascii"

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_strip([piece("é", 0.05), piece(" b", 0.95), piece("c", 1.0, forced=True)])
    assert terminal.getvalue() == (
        "\x1b[38;5;196m\\xe9\x1b[0m\x1b[38;5;46m b\x1b[0m\x1b[2mc\x1b[0m\n0    9*\n"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    print_strip([piece("a", 0.05)])
    assert terminal.getvalue().endswith("*\na\n0\n")


def token(data: bytes, probability: float = 0.5, text: str = "?") -> SimpleNamespace:
    return SimpleNamespace(bytes=data.hex(), text=text, probability=probability, forced=False)


def test_tokens_that_share_a_character_stand_together() -> None:
    korean, smile = "서".encode(), "😀".encode()
    given = [token(b"a"), token(korean[:1]), token(korean[1:]), token(b"\xff"), token(b"", text="<end>"),
             token(smile[:2]), token(smile[2:]), token(" 中".encode()), token("文".encode()[:2])]  # fmt: skip
    made = pieces(given)
    assert [(one.text, len(one.tokens)) for one in made] == [
        ("a", 1), ("서", 2), ("\\xff", 1), ("<end>", 1), ("😀", 2), (" 中", 1), ("?", 1),
    ]  # fmt: skip
