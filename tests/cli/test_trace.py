"""`cutaway trace` on a real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from cutaway.cli import main

pytestmark = pytest.mark.models


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    with pytest.raises(SystemExit) as left:
        main(["trace", *arguments])
    out, err = capsys.readouterr()
    assert left.value.code == status, err
    return err if status else out


def test_tables_json_and_a_file_for_perfetto(
    smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = ["你好, how are you?", "-m", str(smollm2_path), "--max-tokens", "4", "-t", "0", "--context", "256"]
    file = tmp_path / "trace.json"
    table = run(capsys, *fixed, "--chrome", str(file))
    for word in ("template", "tokenize", "prefill 1", "decode", "hand out", "attend 9/3 heads x 64", "context"):
        assert word in table
    assert max(map(cell_len, table.splitlines()[1:])) <= 100
    assert any(event.get("cat") == "op" for event in json.loads(file.read_text())["traceEvents"])
    told = json.loads(run(capsys, *fixed, "--no-ops", "--json"))
    assert told["why_no_ops"] == "--ops was not given" and told["tokens"] == 4
    assert [step["tokens"] for step in told["steps"] if not step["reads"]] == [1, 1, 1]
    assert sum(step["tokens"] for step in told["steps"] if step["reads"]) == told["prompt_tokens"]
    assert [stage["name"] for stage in told["stages"]][:3] == ["template", "tokenize", "queue"]


def test_a_prompt_or_a_record(smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "one of them" in run(capsys, status=2)
    assert "one of them" in run(capsys, "a", "--record", "b", status=2)
    model = ["-m", str(smollm2_path), "--context", "64"]
    assert "cannot be read" in run(capsys, "--record", str(tmp_path / "none.json"), *model, status=2)
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    assert "error[" in run(capsys, "--record", str(wrong), *model, status=2)
