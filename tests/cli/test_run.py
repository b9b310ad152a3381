"""`cutaway run` with a real model, through the real path."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cutaway.cli import main

pytestmark = pytest.mark.models


@pytest.fixture(autouse=True)
def no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


class Cutaway:
    """Runs `cutaway run` with a model and keeps what it wrote."""

    def __init__(self, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.model = model
        self.capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str, status: int = 0) -> str:
        with pytest.raises(SystemExit) as left:
            main(["run", "-m", str(self.model), *arguments])
        self.out, self.err = self.capsys.readouterr()
        assert left.value.code == status, self.err
        return self.out


@pytest.fixture
def run(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> Cutaway:
    return Cutaway(smollm2_path, capsys)


def test_streamed_and_as_json_are_the_same_answer(run: Cutaway) -> None:
    streamed = run("Tell me a long story about a fox.", "--seed", "7", "--max-tokens", "12")
    assert "[stopped by --max-tokens]" in run.err and "seed" not in run.err
    told = json.loads(run("Tell me a long story about a fox.", "--seed", "7", "--max-tokens", "12", "--json"))
    assert streamed == told["text"] + "\n" and run.err == ""
    assert told["finish_reason"] == "length" and told["stop"] == {"kind": "length", "matched": None, "at": 11}
    assert len(told["token_ids"]) == told["usage"]["completion_tokens"] == 12
    assert len(told["prompt_token_ids"]) == told["usage"]["prompt_tokens"]
    assert told["seed"] == 7 and told["timings"]["total"] > 0


def test_a_drawn_seed_gives_the_answer_again(run: Cutaway) -> None:
    first = run("Tell me a secret.", "-n", "12", "-t", "1.5")
    seed = run.err.partition("[seed ")[2].partition("]")[0]
    assert first == run("Tell me a secret.", "-n", "12", "-t", "1.5", "--seed", seed)


def test_an_interrupted_answer_tells_its_seed(run: Cutaway, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[str] = []

    def interrupted(text: str) -> None:
        pieces.append(text)
        if len(pieces) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cutaway.cli.run.write", interrupted)
        run("Name a colour.", "--ignore-eos", "-n", "20", status=130)
    seed = run.err.split("[seed ")[1].split("]")[0]
    assert run("Name a colour.", "--seed", seed, "--ignore-eos", "-n", "20").startswith("".join(pieces))


def test_raw_and_stops(run: Cutaway) -> None:
    told = json.loads(run("--raw", "1 2 3 4 5", "-t", "0", "--stop", "8", "-n", "20", "--json", "--logprobs", "2"))
    assert told["text"].startswith(" 6 7") and "8" not in told["text"]
    assert told["stop"]["kind"] == "stop_string" and told["stop"]["matched"] == "8" and told["finish_reason"] == "stop"
    assert all(entry["rank"] == 1 and len(entry["top"]) == 2 for entry in told["logprobs"])
    run("--raw", "1 2 3 4 5", "-t", "0", "--stop-regex", "[89]", "-n", "20", "--logprobs", "1", "--timings")
    assert run.out.startswith(" 6 7") and "8" not in run.out
    assert "(rank 1); best: " in run.err and "[load " in run.err


def test_all_sampling_options_arrive(run: Cutaway) -> None:
    told = run(
        "--raw", "a", "-n", "4", "--temperature", "0.9", "--top-k", "50", "--top-p", "0.9", "--min-p", "0.01",
        "--typical-p", "0.95", "--repetition-penalty", "1.1", "--presence-penalty", "0.1", "--frequency-penalty", "0.1",
        "--no-repeat-ngram", "3", "--min-tokens", "1", "--temperature-end", "0.5", "--temperature-length", "4",
        "--dynamic-temperature-range", "0.2", "--dynamic-temperature-exponent", "1.2", "--bad-word", "xyz",
        "--ban-token", "5", "--stop-token", "9", "--ignore-eos", "--include-stop", "--time-limit", "60",
        "--logprobs-mode", "processed", "--logprobs", "1", "--prompt-logprobs", "1", "--seed", "1", "--json",
    )  # fmt: skip
    assert len(json.loads(told)["prompt_logprobs"]) == 1
    assert run("--raw", "a", "--logit-bias", "28120=100", "-t", "0", "-n", "1") == "hello\n"
    assert run("--raw", "a", "--allow-token", "28120", "-t", "0", "-n", "2") == "hellohello\n"


def test_several_choices(run: Cutaway) -> None:
    told = json.loads(run("Hi", "-n", "6", "-t", "1.3", "--choices", "3", "--seed", "2", "--json"))
    assert len(told["choices"]) == 3 and told["text"] == told["choices"][0]["text"]
    assert told["usage"]["completion_tokens"] == sum(len(c["token_ids"]) for c in told["choices"])
    assert run("Hi", "-n", "6", "-t", "1.3", "--choices", "3", "--seed", "2").count("--- ") == 3


def test_standard_input_in_another_encoding(run: Cutaway, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "今天天气怎么样？请用三句话介绍一下北京。"
    plain = run(text, "-t", "0", "-n", "4")
    data = (text + "\r\n").encode("gb18030")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False))
    assert run("-", "-t", "0", "-n", "4") == plain
    assert "was read as GB18030" in run.err


def test_system_message_config_and_presets(run: Cutaway, tmp_path: Path) -> None:
    plain = run("Hi", "--preset", "structured", "-n", "8")
    assert plain == run("Hi", "-t", "0", "--top-k", "0", "--top-p", "1", "-n", "8")
    assert plain != run("Hi", "--preset", "structured", "-n", "8", "--system", "You are a pirate who hates colours.")
    (tmp_path / "cutaway.toml").write_text(
        'system = "You are a pirate who hates colours."\n[sampling]\npreset = "structured"\nmax_tokens = 8\n',
        encoding="utf-8",
    )
    assert run("Hi") != plain and "[seed" not in run.err
    run("Hi", "--preset", "nope", status=2)
    assert "error[parameter_invalid]: preset is 'nope'" in run.err


def test_a_trace_has_one_record_per_token(run: Cutaway, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    told = json.loads(run("Hi", "-n", "3", "-t", "0", "--trace", str(path), "--json"))
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [r["id"] for r in records if r["record"] == "token"] == told["token_ids"]
    assert any(r["record"] == "step" for r in records)
    path.unlink()
    run("Hi", "--trace", str(path), "--context", "4", status=2)
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["Hi", "-t", "-1"], "parameter_invalid", "temperature is -1.0; it must be 0 to 100"),
        (["Hi", "--logit-bias", "x"], "parameter_invalid", "logit_bias is 'x'"),
        (["Hi", "--logit-bias", "999999=5"], "parameter_invalid", "999999"),
        (["Hi", "--stop-regex", "["], "parameter_invalid", "stop_regex"),
        (["Hi", "--context", "10"], "context_length_exceeded", "too long: 31 tokens > 9 maximum"),
        (["Hi", "--context", "0"], "parameter_invalid", "context is 0"),
        (["Hi", "--kv-k", "int4"], "parameter_invalid", "kv_k"),
        (["Hi", "--threads", "0"], "parameter_invalid", "threads is 0"),
        (["Hi", "--backend", "gpu"], "parameter_invalid", "backend"),
        (["Hi", "--rope-scaling", "foo"], "parameter_invalid", "rope_scaling"),
        (["Hi", "--context", "100000000"], "memory_short", "bytes"),
        (["--raw", ""], "parameter_invalid", "no tokens"),
        (["Hi", "--config", "none.toml"], "config_invalid", "none.toml"),
        ([], "usage", "prompt"),
    ],
)
def test_bad_input(run: Cutaway, arguments: list[str], code: str, words: str) -> None:
    assert run(*arguments, status=2) == ""
    assert run.err.startswith(f"cutaway: error[{code}]: ") and words in run.err and run.err.count("\n") == 1


def test_a_model_without_a_template(gemma_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Cutaway(gemma_path, capsys)
    run("Hi", status=2)
    assert "error[template_missing]" in run.err and "--raw" in run.err


def test_a_cut_file(smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = tmp_path / "short.gguf"
    with smollm2_path.open("rb") as file:
        short.write_bytes(file.read(3_000_000))
    run = Cutaway(short, capsys)
    run("Hi", status=2)
    assert "error[format_invalid]: short.gguf" in run.err


def test_forms_and_rare_stages_from_the_command_line(run: Cutaway, tmp_path: Path) -> None:
    said = ("--seed", "1", "-n", "40")
    assert run("Name a colour.", *said, "--one-of", "red", "--one-of", "blue") in ("red\n", "blue\n")
    schema = tmp_path / "schema.json"
    schema.write_text(
        '{"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": false}',
        "utf-8",
    )
    assert json.loads(run("A number.", *said, "--json-schema", f"@{schema}"))["n"] in (1, 2)
    assert run("A number.", *said, "--regex", "[0-9]{2}").strip().isdigit()
    run("A number.", *said, "--regex", "[0-9]", "--one-of", "x", status=2)
    assert "an answer can have only one form" in run.err
    run("Hi", "-n", "3", "--top-n-sigma", "1", "--xtc-probability", "0.5", "--mirostat", "2", "--dry-multiplier", "0.8")
    run("Hi", "--json-schema", "@nowhere.json", status=2)
    assert "nowhere.json cannot be read" in run.err


def test_a_loop_is_told_with_period_and_repeats(run: Cutaway) -> None:
    said = ("--raw", "x", "-t", "0", "--allow-token", "28120", "-n", "260")
    run(*said)
    assert "the same token was written 260 times in a row" in run.err and "dry_multiplier" in run.err
    told = json.loads(run(*said, "--stop-on-repetition", "--json"))
    assert told["stop"]["kind"] == "repetition" and told["finish_reason"] == "length" and told["stop"]["at"] == 207


def test_a_prompt_in_a_script_the_model_does_not_know(capsys: pytest.CaptureFixture[str], smollm2_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["run", "-m", "smollm2-135m", "法国的首都是哪里？", "-n", "1", "-t", "0"])
    assert "knows English" in capsys.readouterr().err


def test_an_answer_goes_on_when_the_context_is_full(run: Cutaway) -> None:
    text = "The river runs to the sea and the city lies by the river. " * 6
    asked = (text, "--raw", "-t", "0", "--context", "128", "--ignore-eos", "-n", "60", "--json")
    slid = json.loads(run(*asked, "--truncation", "slide"))
    assert slid["usage"]["completion_tokens"] == 60 and any("in all" in w for w in slid["warnings"])
    cut = json.loads(run(*asked))
    assert cut["stop"]["kind"] == "context" and slid["token_ids"][: len(cut["token_ids"])] == cut["token_ids"]
    run("word " * 200, "--context", "128", "--truncation", "slide", status=2)
    assert "context_length_exceeded" in run.err or "context" in run.err
    run("hello", "--truncation", "auto", status=2)
    assert "slide or error" in run.err
