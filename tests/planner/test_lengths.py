"""Lengths of requests, read from our log and from lists, and what blocks and pages make of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cutaway.errors import ParameterError
from cutaway.planner.lengths import Lengths, compare, read_lengths


def test_our_log_and_plain_lists(tmp_path: Path) -> None:
    path = tmp_path / "lengths"
    path.write_text(
        '{"event": "request", "tokens_in": 100, "tokens_out": 20}\n{"event": "start"}\n{broken\n'
        '{"tokens_in": true, "tokens_out": 2}\n{"tokens_in": "9", "tokens_out": 2}\n'
        "# a comment\n\n300\n40 60\n7,3\n-5\n1 2 3\nwords\n0\n",
        encoding="utf-8",
    )
    assert read_lengths(path) == Lengths((120, 300, 100, 10), 8)


def test_records_in_a_folder_and_listed(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    for name, prompt, tokens in (("a", 100, 20), ("b", 7, 3), ("c", "9", 1)):
        entry = {"record": "request", "prompt_tokens": prompt, "tokens": tokens}
        (folder / f"{name}.json").write_text(json.dumps(entry))
    (folder / "other.txt").write_text("5000\n")
    (folder / "list.json").write_text("[1, 2]")
    assert read_lengths(folder) == Lengths((120, 10), 2)
    assert read_lengths(folder / "a.json") == Lengths((120,), 0)
    listed = tmp_path / "requests.json"
    lines = [{"prompt_tokens": 40, "tokens": 2}, {"prompt_tokens": 8, "tokens": None}, "no object", {}]
    listed.write_text(json.dumps({"record": "requests", "requests": lines}))
    assert read_lengths(listed) == Lengths((42,), 3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ParameterError, match="names no request"):
        read_lengths(tmp_path / "empty")


@pytest.mark.parametrize("text", ["", "no numbers\n", "[" * 100_000])
def test_a_file_without_requests(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lengths"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParameterError, match="names no request"):
        read_lengths(path)
    with pytest.raises(ParameterError, match="cannot be read"):
        read_lengths(tmp_path / "nothing")


def test_blocks_against_pages() -> None:
    made = compare(Lengths((100, 200, 5000), 0), context=1000, token_bytes=10, budget=100_000)
    assert made.longer == 1 and made.mean == pytest.approx(1300 / 3)
    assert made.contiguous.held == 10_000 and made.contiguous.requests == 10
    # 112 + 208 + 1008 tokens in pages of 16.
    assert made.paged.held == round(13_280 / 3) and made.paged.wasted == round(280 / 3)
    assert made.paged.requests == int(100_000 / (13_280 / 3))
    assert compare(Lengths((5,), 0), context=10, token_bytes=1, budget=-5).paged.requests == 0
