from __future__ import annotations

import io
import sys

import pytest

from cutaway.cli.terminal import write_table


@pytest.mark.parametrize(("encoding", "text"), [("utf-8", "中"), ("ascii", r"\u4e2d")])
def test_columns_stand_under_each_other_whatever_the_terminal_can_show(
    encoding: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream, encoding, errors="backslashreplace"))
    write_table(["id", "piece", "kind"], [["1", "中", "a"], ["22", "zz", "b"]], right=[0])
    sys.stdout.flush()
    lines = stream.getvalue().decode(encoding).splitlines()
    width = max(5, 2 if text == "中" else len(text))
    assert lines == [
        "id  " + "piece".ljust(width) + "  kind",
        " 1  " + text + " " * (width - (2 if text == "中" else len(text))) + "  a",
        "22  " + "zz".ljust(width) + "  b",
    ]
