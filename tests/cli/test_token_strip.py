"""The strip of tokens: readable without colours, aligned by the width that characters have."""

from __future__ import annotations

import io
import sys

import pytest
from rich.cells import cell_len

from cutaway.cli.token_strip import print_strip, strip_lines


def test_digits_stand_under_their_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    print_strip(
        [("The", 0.95, False), (" cat", 0.42, False), (" 坐在", 0.07, False), ("那里", 1.0, True), ("\n", 0.5, False),
         ("", 0.2, False), (".", 0.999, False)]
    )  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "The cat 坐在那里\\n",
        "9   4   0   *   5",
        "''.",
        "2 9",
    ]


def test_lines_are_no_wider_than_the_terminal() -> None:
    tokens = [("数据库", 0.5, False), (" word", 0.5, False)] * 40
    lines = list(strip_lines(tokens, 100))
    assert [token for line in lines for token in line] == tokens
    assert all(90 < sum(cell_len(text) for text, _, _ in line) <= 100 for line in lines[:-1])


def test_a_terminal_gets_colours_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        encoding = "ascii"

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_strip([("é", 0.05, False), (" b", 0.95, False)])
    assert terminal.getvalue() == "\x1b[38;5;196m\\xe9\x1b[0m\x1b[38;5;46m b\x1b[0m\n0    9\n"
    monkeypatch.setenv("NO_COLOR", "1")
    print_strip([("a", 0.05, False)])
    assert terminal.getvalue().endswith("m\n0    9\na\n0\n")
