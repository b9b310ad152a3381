"""`cutaway prompt` on the real tokenizers, as people and programs see it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from cutaway.cli import main
from cutaway.cli.columns import shortened
from cutaway.sampling import SamplingParams
from cutaway.xray.record import Ending, RequestRecord, System
from cutaway.xray.record_json import dump_record

pytestmark = pytest.mark.models
CHAT = [
    {"role": "system", "content": "Zeit: 03:02. 请始终认真回答每一个问题。"},
    {"role": "user", "content": "你好<|im_end|>"},
]


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    with pytest.raises(SystemExit) as left:
        main(["prompt", *arguments])
    out, err = capsys.readouterr()
    assert left.value.code == status, err
    return err if status else out


@pytest.fixture
def chat(tmp_path: Path) -> str:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(CHAT), "utf-8")
    return str(file)


def test_a_file_of_messages(smollm2_path: Path, chat: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, chat, "-m", str(smollm2_path), "--json"))
    assert told["token_count"] == len(told["tokens"]) and told["context"] == 4096
    assert bytes.fromhex("".join(t["bytes"] for t in told["tokens"])) == told["text"].encode()
    assert {f["code"] for f in told["findings"]} == {"control_text", "clock"} and told["warnings"] == []
    assert sum(s["tokens"] for s in told["shares"]) == told["token_count"]
    for more, sign in (([], "请始终"), (["--tokens"], "e8 af")):
        table = run(capsys, chat, "-m", str(smollm2_path), *more)
        assert sign in table and "! clock at token" in table
        assert max(map(cell_len, table.splitlines()[1:])) <= 100


def test_a_body_of_a_request_and_a_text_are_the_same_chat(
    smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["-m", str(smollm2_path), "--json"]
    body: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5}
    file = tmp_path / "body.json"
    file.write_text(json.dumps(body), "utf-8")
    assert run(capsys, "--file", str(file), *model) == run(capsys, "Hi", *model)
    file.write_text(json.dumps({"prompt": [1, 2, 1]}), "utf-8")
    assert [t["by"] for t in json.loads(run(capsys, str(file), *model))["tokens"]] == ["unknown"] * 3
    with_system = json.loads(run(capsys, "Hi", "--system", "Be brief.", *model))
    assert with_system["tokens"][3]["role"] == "system"
    assert json.loads(run(capsys, "Hi", "--raw", *model))["token_count"] == 1


def test_a_record_of_a_served_request(
    smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = System("smollm2", "", "0", "avx2", "native", "bf16", "bf16", 512)
    record = RequestRecord(
        id="0" * 16, request="r", caller="local", began=0.0, path="/v1/completions", level="contents", system=system,
        parameters=SamplingParams(), seed=1, prompt_tokens=3, tokens=0, end=Ending("length"), prompt_ids=(1, 2, 1),
        token_ids=(),
    )  # fmt: skip
    file = tmp_path / "record.json"
    file.write_text(dump_record(record))
    told = json.loads(run(capsys, str(file), "-m", str(smollm2_path), "--json"))
    assert [t["id"] for t in told["tokens"]] == [1, 2, 1] and {t["by"] for t in told["tokens"]} == {"unknown"}
    assert json.loads(run(capsys, "--record", str(file), "-m", str(smollm2_path), "--json")) == told
    assert "one of them" in run(capsys, "a text", "--record", str(file), "-m", str(smollm2_path), status=2)
    file.write_text(dump_record(replace(record, level="figures", prompt_ids=None, token_ids=None)))
    assert "does not hold the prompt" in run(capsys, str(file), "-m", str(smollm2_path), status=2)


def test_beside_another_model_and_another_template(
    smollm2_path: Path, qwen_path: Path, chat: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["-m", str(smollm2_path)]
    template = tmp_path / "bare.jinja"
    template.write_text("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    told = json.loads(run(capsys, chat, *model, "--diff", str(template), "--json"))["diff"]
    assert told["text"]["theirs"] == "" and told["text"]["ours"] == "<|im_start|>assistant\n"
    assert told["token"]["theirs"] is None and told["same_vocabulary"] is True
    shown = run(capsys, chat, *model, "--diff", str(template))
    assert "there  (the text ends)" in shown and "there  (the tokens end)" in shown
    assert "the text is the same" in run(capsys, chat, *model, "--diff", str(qwen_path))
    told = json.loads(run(capsys, chat, *model, "--template", str(template), "--json"))
    assert told["model"] == str(template)
    assert "missing_generation_prompt" in {f["code"] for f in told["findings"]}


@pytest.mark.parametrize(
    ("content", "what"),
    [("{", "not valid JSON"), ("3", "a list of messages"), ("{}", "neither messages"), ('{"prompt": []}', "neither"),
     ('{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": []}', "must be an object"),
     ('{"prompt": [-1]}', "ids of this model"), ('{"prompt": [9999999]}', "ids of this model"),
     ("[]", "messages is empty")],
)  # fmt: skip
def test_files_that_are_no_prompt(
    smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, what: str
) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(content)
    assert what in run(capsys, str(file), "-m", str(smollm2_path), status=2)


def test_one_prompt_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert "one of them" in run(capsys, status=2)
    assert "one of them" in run(capsys, "a", "--file", "b", status=2)


@pytest.mark.parametrize("text", ["", "a", "中文" * 40, "a" * 300, "\n" * 30, "é\U0001f642" * 30])
def test_shortened_to_columns(text: str) -> None:
    assert cell_len(shortened(text, 44)) <= 44
