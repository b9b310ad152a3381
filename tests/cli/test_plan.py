"""`cutaway plan`: tables and JSON from the same record."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cutaway.cli import main
from cutaway.cli.plan_report import picture, rate, seconds


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "cache"))


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["plan", *arguments])
    out, err = capsys.readouterr()
    assert left.value.code == 0, err
    return out


def test_a_known_size_and_a_change_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["llama-3.1-70b", "--context", "32768", "--requests", "1", "--json"]
    made = json.loads(output_of(capsys, *asked))
    assert made["kv_bytes"] == pytest.approx(10.74e9, rel=0.001) and made["origin"] == "sizes"
    assert made["weights"][0]["types"] == "BF16"
    changed = json.loads(output_of(capsys, *asked, "--set", "kv_heads=64"))
    assert changed["kv_token_bytes"] == 8 * made["kv_token_bytes"]


def test_tables_fit_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lengths = tmp_path / "长度.txt"
    lengths.write_text("100 50\n3000\n200\n", encoding="utf-8")
    out = output_of(
        capsys, "qwen3-30b-a3b", "--context", "8192", "--device", "2x24gb", "--lengths", str(lengths), "--requests", "4"
    )
    assert "8 of 128 experts a token" in out and "whole contexts" in out and "2x24gb" in out
    assert max(map(len, out.splitlines())) <= 100
    assert "times: unknown" in out and "cutaway bench calibrate" in out


def test_lengths_in_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lengths = tmp_path / "log"
    lengths.write_text('{"tokens_in": 90, "tokens_out": 10}\nnoise\n', encoding="utf-8")
    made = json.loads(output_of(capsys, "phi-3-mini", "--lengths", str(lengths), "--json"))["lengths"]
    assert made["skipped"] == 1 and made["contiguous"]["wasted"] > 30 * made["paged"]["wasted"]
    assert made["paged"]["requests"] > 20 * made["contiguous"]["requests"] or not made["contiguous"]["requests"]
    assert made["paged"]["tpot_ms"] is None


def test_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "contexts.svg"
    output_of(capsys, "llama-3.1-8b", "--svg", str(path))
    assert "unknown" in path.read_text(encoding="utf-8")
    time = {"low": 9.0, "middle": 10.0, "high": 11.0}
    known = {"context": 4096, "tpot_ms": time, "attention_share": 0.3}
    drawn = ElementTree.fromstring(picture({"model": "<a & b>", "contexts": [known, {**known, "context": 32768}]}))
    assert len([e for e in drawn if e.tag.endswith("rect")]) == 4


def test_times_for_people() -> None:
    assert seconds(None) == rate(None, 3) == "unknown"
    assert seconds({"low": 76.2, "middle": 81.0, "high": 88.0}) == "81.0 [76.2, 88.0] ms"
    assert seconds({"low": 19_000.0, "middle": 20_000.0, "high": 21_000.0}) == "20.0 [19.0, 21.0] s"
    assert rate({"low": 10.0, "middle": 20.0, "high": 40.0}, 2) == "50 to 200"


@pytest.mark.parametrize(
    "wrong",
    [
        ["--device", "gpu"], ["--weights", "Q9"], ["--set", "colour=3"], ["--requests", "0"], ["--ttft", "0"],
        ["--lengths", "missing"], ["--rope-scaling", "what"],
    ],
)  # fmt: skip
def test_what_is_not_valid(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["plan", "llama-3-8b", *wrong])
    out, err = capsys.readouterr()
    assert left.value.code == 2 and out == "" and "error[parameter_invalid]" in err


@pytest.mark.models
def test_a_file_on_disk(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(output_of(capsys, str(smollm2_path), "--context", "512", "--requests", "1", "--json"))
    assert made["origin"] == "file" and made["weights"] is None and made["fits"]
    assert made["process_bytes"] > 20_000_000  # with the tokenizer
