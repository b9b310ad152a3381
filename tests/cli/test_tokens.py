"""`cutaway tokens` on the real tokenizers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cutaway.cli import main

pytestmark = pytest.mark.models


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["tokens", *arguments])
    out, err = capsys.readouterr()
    assert left.value.code == 0, err
    return out


def test_a_ruler(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "naïve 🙂\n"
    told = json.loads(output_of(capsys, text, "--model", str(smollm2_path), "--json"))
    assert (told["characters"], told["bytes"], told["token_count"]) == (8, len(text.encode()), len(told["tokens"]))
    assert bytes.fromhex("".join(t["bytes"] for t in told["tokens"])) == text.encode()
    assert told["tokens"][0]["start"] == 0 and told["tokens"][-1]["end"] == len(text)
    table = output_of(capsys, text, "--model", str(smollm2_path))
    assert table.splitlines()[0].split() == ["id", "piece", "bytes", "span", "kind", "text"]
    assert r"\n" in table and f"{told['token_count']} tokens, 8 characters" in table


def test_markers_count_only_when_asked(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(output_of(capsys, "<|im_end|>", "-m", str(smollm2_path), "--json"))
    read = json.loads(output_of(capsys, "<|im_end|>", "-m", str(smollm2_path), "--json", "--markers"))
    assert [t["id"] for t in plain["tokens"]] == [44, 108, 306, 79, 486, 108, 46]
    assert [(t["id"], t["kind"]) for t in read["tokens"]] == [(2, "special")]


def test_the_first_token_only_when_asked(gemma_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["hi", "-m", str(gemma_path), "--json"]
    plain, first = (json.loads(output_of(capsys, *arguments, *more))["tokens"] for more in ([], ["--bos"]))
    assert [t["id"] for t in first] == [2, *(t["id"] for t in plain)]


def test_side_by_side(
    smollm2_path: Path, qwen_path: Path, gemma_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [str(p) for p in (smollm2_path, qwen_path, gemma_path)]
    told = json.loads(output_of(capsys, "中文 and English", "--compare", *models, "--json"))
    assert [m["model"] for m in told["models"]] == models
    for row, token_bytes in zip(told["models"], (23_040, 12_288, 18_432), strict=True):
        assert row["kv_bytes"] == token_bytes * row["tokens"]
        assert row["characters_per_token"] == pytest.approx(14 / row["tokens"])
        assert row["unknown_rate"] == 0
    table = output_of(capsys, "中文 and English", "--compare", *models)
    assert len(table.splitlines()) == 6


def test_a_file(smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("今天天气怎么样？请介绍一下北京。".encode("gb18030"))
    told = json.loads(output_of(capsys, "--file", str(path), "-m", str(smollm2_path), "--json"))
    assert told["characters"] == 16


def test_merges_foreign_ids_and_scripts(
    smollm2_path: Path, qwen_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    small, qwen = str(smollm2_path), str(qwen_path)
    (word,) = json.loads(output_of(capsys, "unbelievable", "--merges", "-m", small, "--json"))["words"]
    plain = json.loads(output_of(capsys, "unbelievable", "-m", small, "--json"))["tokens"]
    assert word["ids"] == [t["id"] for t in plain]
    table = output_of(capsys, "unbelievable", "--merges", "-m", small)
    assert table.startswith("u | n | b | e | l") and f"ids: {' '.join(map(str, word['ids']))}" in table
    foreign = json.loads(output_of(capsys, "你好，世界", "--ids-of", qwen, "-m", small, "--json"))
    assert [t["there"] for t in foreign["tokens"]].count(None) >= 1 and foreign["becomes"] != foreign["text"]
    assert "0 of" in output_of(capsys, "你好，世界", "--ids-of", qwen, "-m", small)
    shares = json.loads(output_of(capsys, "--scripts", "-m", small, "--json"))
    assert sum(s["tokens"] for s in shares["scripts"]) == shares["vocabulary"] == 49152
    assert max(map(len, output_of(capsys, "--scripts", "-m", qwen).splitlines())) <= 100


@pytest.mark.parametrize("words", [["a", "--merges", "--scripts"], ["a", "--scripts"], ["a", "--merges", "--compare"]])
def test_one_view_at_a_time(words: list[str], smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["tokens", *words, "-m", str(smollm2_path)])
    assert left.value.code == 2 and "parameter_invalid" in capsys.readouterr().err
