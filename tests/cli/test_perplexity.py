"""`cutaway perplexity` on a real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cutaway.cli import main

pytestmark = pytest.mark.models


def run(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as left:
        main(["perplexity", *words])
    out, err = capsys.readouterr()
    assert left.value.code == status, err
    return out, err


def test_a_file_in_windows(smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text.txt"
    file.write_text("春天来了，花都开了。Spring has come, and the flowers bloom. " * 20, "utf-8")
    common = ["--file", str(file), "-m", str(smollm2_path), "--context", "256"]
    out, err = run(capsys, *common)
    assert "perplexity" in out and "±" in out and "bits per byte" in out and " of " in err
    assert max(map(len, out.splitlines())) <= 100
    told = json.loads(run(capsys, *common, "--json")[0])
    assert told["record"] == "perplexity" and told["context"] == told["window"] == 256 and told["stride"] == 128
    assert f"perplexity {told['perplexity']:.3f}" in out


def test_a_needle(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["A long walk through the hills. " * 9, "-m", str(smollm2_path), "--context", "256", "--needle"]
    told = json.loads(run(capsys, *common, "--json")[0])
    assert len(told["needles"]) == 18 and {one["share"] for one in told["needles"]} == {0.25, 0.5, 1.0}
    assert "one of them" in run(capsys, status=2)[1]
