from __future__ import annotations

import json

import pytest

from cutaway.bench.synthetic import SHAPES, Shape
from cutaway.cli import main


@pytest.fixture(autouse=True)
def a_tiny_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {**SHAPES, "tiny": Shape("llama", 1, 256, 4, 2, 64, 512, 320, 1e4, tied=True)}
    monkeypatch.setattr("cutaway.bench.synthetic.SHAPES", shapes)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["bench", "--synthetic", "tiny", "--rounds", "1", "--threads", "1", *arguments])
    return int(left.value.code or 0)


def test_rates_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--prompt", "16,32", "--streams", "1,2", "--context", "8") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tiny Q4_K (synthetic): 1 threads") and lines[1].split()[:2] == ["work", "tokens/s"]
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "prompt of 16", "prompt of 32", "decode, 1 stream, context 8", "decode, 2 streams, context 8",
    ]  # fmt: skip


def test_rates_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--prompt", "16", "--streams", "0", "--json", "--weights", "Q8_0", "--kv-k", "int8") == 0
    told = json.loads(capsys.readouterr().out)
    (work,) = told["works"]
    assert told["kv"] == ["int8", "bf16"] and work["prompt"] == 16 and work["share"] > 0
    assert set(work["limits"]) == {"bandwidth", "int8", "bf16", "f32"}


def test_ops_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--prompt", "16", "--streams", "1", "--context", "8", "--ops") == 0
    told = capsys.readouterr().out
    assert "feed 512+512 x 256 Q4_K" in told and "the step in one call" in told
    assert run("--prompt", "16", "--streams", "0", "--ops", "--json") == 0
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert {op["op"] for op in step["ops"]} >= {"embed", "project", "attend", "feed", "logits"}


def test_shapes_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--ops", "--shapes", "--batches", "1,16") == 0
    told = capsys.readouterr().out
    assert "of limit" in told and "batch 1: the products take" in told and "batch 16:" in told
    assert max(map(len, told.splitlines()[1:-2])) <= 100
    assert run("--ops", "--shapes", "--batches", "1,16", "--json") == 0
    shapes = json.loads(capsys.readouterr().out)["shapes"]
    assert {shape["op"] for shape in shapes} == {"project", "project_add", "feed", "logits"}
    feed = [shape for shape in shapes if shape["op"] == "feed"]
    assert [shape["batch"] for shape in feed] == [1, 16] and feed[0]["bytes"] == feed[1]["bytes"]
    assert feed[1]["operations"] == 16 * feed[0]["operations"] == 16 * 2 * 2 * 512 * 256
    assert all(shape["of_limit"] > 0 and shape["seconds"] > 0 for shape in shapes)
    shares = {shape["shape"]: shape["share_of_weights"] for shape in shapes}
    assert abs(sum(shares.values()) - 1) < 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        ["--prompt", "a"], ["--prompt", "0", "--streams", "0"], ["--streams", "65"], ["--streams", "-1"],
        ["--shapes", "--batches", "0"], ["--shapes", "--batches", "1,600"],
        ["--kv-k", "int3"], ["--weights", "Q9"], ["--rounds", "0"],
    ],
)  # fmt: skip
def test_bad_input_is_told(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*wrong) == 2
    assert "error[parameter_invalid]" in capsys.readouterr().err
