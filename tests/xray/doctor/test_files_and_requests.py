"""Each check of a text file and of a request has a broken instance that it names and a healthy one; what names mean."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutaway.sampling import SamplingParams
from cutaway.xray.doctor import encoding, request
from cutaway.xray.doctor.argument import subject_of
from cutaway.xray.doctor.checks import Check, examine
from cutaway.xray.doctor.subject import Subject
from cutaway.xray.record import Ending, Figures
from cutaway.xray.record_json import dump_record
from text.conftest import byte_level
from tiny_llama import write_gguf
from xray.records import made

CHINESE = "请始终认真回答每一个问题，谢谢。"


def codes(check: Check, subject: Subject) -> list[str]:
    return [one.code for one in check(subject)]


@pytest.mark.parametrize(
    ("check", "data", "code"),
    [
        (encoding.source, CHINESE.encode("gb18030"), "not_utf8"),
        (encoding.source, "plain text".encode("utf-16-le"), "not_utf8"),
        (encoding.source, CHINESE.encode("utf-16"), "byte_order_mark"),
        (encoding.source, CHINESE.encode("utf-8-sig"), "byte_order_mark"),
        (encoding.damage, "a\ufffdb".encode(), "characters_lost"),
        (encoding.damage, "锟斤拷锟斤拷".encode(), "characters_lost"),
        (encoding.damage, "Ü ü ß ñ é".encode().decode("latin-1").encode(), "encoded_twice"),
        (encoding.damage, "你好世界".encode().decode("gb18030").encode(), "encoded_twice"),
    ],
)  # fmt: skip
def test_files(check: Check, data: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert codes(check, Subject(file=path)) == [code]


HEALTHY = ["", "plain", CHINESE, "Ü ü ß ñ é “x”", "こんにちは", "한국어 문장", "Привет, мир", "👩‍👩‍👧 é"]


@pytest.mark.parametrize("text", HEALTHY)
def test_healthy_files_are_silent(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    assert examine(Subject(file=path, machine=False)).findings == ()


def test_other_faults_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes(encoding.source, Subject(file=tmp_path)) == ["file_unreadable"]
    path = tmp_path / "a.json"
    path.write_text(r'{"prompt": "\ud83d"}')
    assert codes(encoding.body, Subject(file=path)) == ["half_character"]
    path.write_text(r'{"prompt": "\ud83d\ude00"}')
    assert codes(encoding.body, Subject(file=path)) == []
    path.write_text(CHINESE, encoding="utf-8")
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "latin-1"))
    assert codes(encoding.console, Subject(file=path)) == ["console_lacks"]


def test_a_file_that_a_vocabulary_cannot_express(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\u00e9", encoding="utf-8")
    sound = write_gguf(tmp_path / "a.gguf", byte_level())
    assert codes(encoding.tokenizer, Subject(file=path, model=str(sound))) == []
    keys: dict[str, Any] = {
        "model": "llama", "tokens": ["<unk>", "<s>", "</s>", "x"], "scores": [0.0] * 4, "token_type": [2, 3, 3, 1],
        "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0,
    }  # fmt: skip
    poor = write_gguf(tmp_path / "b.gguf", {f"tokenizer.ggml.{name}": value for name, value in keys.items()})
    subject = Subject(file=path, model=str(poor))
    assert subject.opened is not None and subject.opened.tokenizer is not None, subject.opened
    assert codes(encoding.tokenizer, subject) == ["text_lost"]


# --- requests ---------------------------------------------------------------------------------------------------------
def asked(**changes: Any) -> Subject:
    plain: dict[str, Any] = {
        "end": Ending("end_token", 2, 200), "figures": Figures(0.5, 9.5, 10.0, 20.0), "warnings": (), "slides": (),
        "parameters": SamplingParams(temperature=0.0),
    }  # fmt: skip
    return Subject(request="r", record=made(**plain | changes), machine=False)


@pytest.mark.parametrize(
    ("check", "changes", "code"),
    [
        (request.ending, {"end": Ending("error", None, 500, "engine_failed", "NaN")}, "request_failed"),
        (request.ending, {"end": Ending("cancelled")}, "request_cancelled"),
        (request.ending, {"end": Ending("length", None, 200)}, "answer_cut"),
        (request.ending, {"end": Ending("length", None, 200), "prompt_tokens": 510}, "context_full"),
        (request.waiting, {"figures": Figures(900.0, 9.0, 10.0, 919.0)}, "queued_long"),
        (request.waiting, {"figures": Figures(0.5, 9.5, 10.0, 20.0, preemptions=2)}, "preempted"),
        (request.waiting, {"warnings": ("careful",)}, "request_warning"),
    ],
)  # fmt: skip
def test_requests(check: Check, changes: dict[str, Any], code: str) -> None:
    assert codes(check, asked(**changes)) == [code]
    assert codes(check, asked()) == []


def test_tokens_of_a_request(tmp_path: Path) -> None:
    assert codes(request.tokens, asked()) == ["tokens_unread"]
    path = write_gguf(tmp_path / "a.gguf", byte_level())

    def seen(**changes: Any) -> list[str]:
        subject = asked(**changes)
        subject = Subject(request="r", record=subject.record, model=str(path), machine=False)
        return codes(request.tokens, subject)

    ids = (70, 71, 72)
    assert seen(prompt_ids=ids, token_ids=(73, 74)) == []
    assert seen(prompt_ids=ids, token_ids=(73, 74, 75, 76) * 80) == ["loop"]
    hot = SamplingParams(temperature=1.2, json_schema={"type": "object"})
    assert seen(prompt_ids=ids, token_ids=(73, 74), parameters=hot) == ["form_at_high_temperature"]
    assert seen(prompt_ids=None, token_ids=None) == ["tokens_unread"]


# --- what a name means ------------------------------------------------------------------------------------------------
def test_what_an_argument_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.json").write_text("{}")
    (tmp_path / "r.json").write_text(dump_record(replace(made(), slides=())))
    write_gguf(tmp_path / "m.gguf", byte_level())
    assert subject_of("http://127.0.0.1:8000").url and subject_of("localhost:8000").url == "localhost:8000"
    assert subject_of("x/cutaway.toml").config == Path("x/cutaway.toml")
    assert subject_of("a.txt").file == Path("a.txt") and subject_of("b.json").file == Path("b.json")
    assert not subject_of("a.txt").machine  # a file is as it is on every machine
    record = subject_of("r.json")
    assert record.record is not None and record.model == "smol"
    for name in ("m.gguf", "smollm2-135m", "SmolLM2 135M", "not/there.gguf", "nothing-of-the-kind"):
        assert subject_of(name).model == name
    assert codes(request.record, subject_of("last")) == ["record_not_found"]
    assert codes(request.record, record) == []
    assert subject_of(None).machine and examine(subject_of(None)).seconds < 5
