"""`cutaway doctor` as people and programs see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from cutaway.cli import main
from text.conftest import byte_level
from tiny_llama import write_gguf


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, int | str | None]:
    with pytest.raises(SystemExit) as left:
        main(["doctor", *arguments])
    return capsys.readouterr().out, left.value.code


def test_a_damaged_model_by_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_gguf(tmp_path / "名字很长的模型文件.gguf", byte_level())
    path.write_bytes(path.read_bytes()[:-100])
    told, status = doctor(capsys, str(path))
    assert status == 4 and told.startswith("error [file_invalid]: ") and "  evidence: format_invalid: " in told
    assert max(map(cell_len, told.splitlines())) <= 100
    out, status = doctor(capsys, str(path), "--json")
    found = json.loads(out)
    assert status == found["status"] == 4 and found["record"] == "examination"
    assert found["findings"][0]["code"] == "file_invalid" and found["findings"][0]["remedy"]
    assert found["seconds"] < 5
