"""`cutaway chat`: turns, commands, and a Ctrl-C that stops only the answer."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutaway.cli import main
from cutaway.cli.chat import Conversation
from cutaway.engine import Answer, Delta, Result, Timings, Usage
from cutaway.errors import ContextExceededError
from cutaway.sampling import SamplingParams, StopReason


def result_of(text: str, kind: Any = "end_token") -> Result:
    answer = Answer(text, (1,), StopReason(kind, None, 0), None, Timings(0, 0, 0, 0))
    return Result((answer,), (1, 2), Usage(2, 1, 0), 1)


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine here is no engine; tests/cli/test_records.py has the records of real ones."""
    monkeypatch.setattr("cutaway.cli.chat.keep", lambda *_: None)


class FakePieces:
    """A stream that is interrupted after its first piece, and then goes on to its end."""

    def __init__(self, interrupted: bool) -> None:
        self.interrupted = interrupted
        self.cancelled = False
        self.pieces = self._pieces()

    def _pieces(self) -> Iterator[Delta]:
        yield Delta("half ")
        if not self.cancelled:
            yield Delta("whole")
        text, kind = ("half ", "cancelled") if self.cancelled else ("half whole", "end_token")
        yield Delta("", result=result_of(text, kind))

    def __iter__(self) -> FakePieces:
        return self

    def __next__(self) -> Delta:
        piece = next(self.pieces)
        if self.interrupted and piece.text == "whole":
            self.interrupted = False
            raise KeyboardInterrupt
        return piece

    def cancel(self) -> None:
        self.cancelled = True
        self.pieces = iter([Delta("", result=result_of("half ", "cancelled"))])

    def __enter__(self) -> FakePieces:
        return self

    def __exit__(self, *_: object) -> None: ...


class FakeEngine:
    def __init__(self) -> None:
        self.heard: list[list[dict[str, Any]]] = []
        self.interrupt = False

    def stream(self, messages: list[dict[str, Any]], params: SamplingParams) -> FakePieces:
        if any("too long" in m["content"] for m in messages):
            raise ContextExceededError("the prompt has 9 tokens and the context 8")
        self.heard.append([dict(m) for m in messages])
        return FakePieces(self.interrupt)


def conversation() -> tuple[Conversation, FakeEngine]:
    engine = FakeEngine()
    return Conversation(engine, SamplingParams(), "Be brief.", timings=False), engine  # type: ignore[arg-type]


def said(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in messages]


def test_turns_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    talk, engine = conversation()
    talk.handle("one")
    talk.handle("two")
    assert said(engine.heard[1]) == ["Be brief.", "one", "half whole", "two"]
    assert capsys.readouterr().out == "half whole\nhalf whole\n"
    talk.handle("/again")
    assert said(engine.heard[2]) == said(engine.heard[1]) and len(talk.messages) == 4
    talk.handle("/system")
    talk.handle("three")
    assert said(engine.heard[3]) == ["three"]
    talk.handle("/reset")
    talk.handle("/again")
    assert "there is no message yet" in capsys.readouterr().err and len(engine.heard) == 4


def test_an_interrupt_keeps_what_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    talk, engine = conversation()
    engine.interrupt = True
    talk.handle("one")
    assert said(talk.messages) == ["one", "half "]
    out, err = capsys.readouterr()
    assert out == "half \n" and "[cancelled]" in err


def test_an_error_ends_the_turn_only(capsys: pytest.CaptureFixture[str]) -> None:
    talk, engine = conversation()
    talk.handle("too long")
    assert talk.messages == [] and engine.heard == []
    assert "error[context_length_exceeded]" in capsys.readouterr().err
    talk.handle("one")
    assert len(talk.messages) == 2


def test_lines_are_text_in_whatever_encoding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk, engine = conversation()
    data = io.BytesIO("-\n你好\n".encode("gb18030"))
    lines = io.TextIOWrapper(data, encoding="utf-8", errors="surrogateescape")  # as `prepare_streams` makes it
    monkeypatch.setattr(sys, "stdin", lines)
    talk.talk()
    assert [messages[-1]["content"] for messages in engine.heard] == ["-", "你好"]  # "-" is a line, not standard input
    err = capsys.readouterr().err
    assert "read as GB18030" in err and "--encoding" not in err  # which chat does not have


@pytest.mark.models
def test_a_turn_computes_only_what_is_new(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    lines = io.StringIO("Name a colour.\nName another one, please.\n/exit\nnever\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False, readline=lines.readline))
    with pytest.raises(SystemExit) as left:
        main(["chat", "-m", str(smollm2_path), "-t", "0", "-n", "24", "--timings"])
    out, err = capsys.readouterr()
    assert left.value.code == 0, err
    assert len(out.splitlines()) >= 2
    prefills = [line for line in err.splitlines() if line.startswith("[prefill")]
    assert len(prefills) == 2 and "cached" not in prefills[0] and "more were cached" in prefills[1]


@pytest.mark.models
@pytest.mark.parametrize(("more", "ends"), [((), True), (("--no-stop-on-repetition",), False)])
def test_an_answer_that_goes_round_in_circles_is_ended(
    more: tuple[str, ...], ends: bool, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    lines = io.StringIO("Say hello.\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False, readline=lines.readline))
    with pytest.raises(SystemExit):
        main(["chat", "-m", str(smollm2_path), "-t", "0", "-n", "230", "--allow-token", "28120", *more])
    out, err = capsys.readouterr()
    assert out.count("hello") == (208 if ends else 230)
    assert ("[stopped: the answer repeated itself" in err) == ends
    assert ("written 230 times" in err) != ends


def test_a_prompt_in_a_script_that_the_model_does_not_know_gets_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    engine = FakeEngine()
    talk = Conversation(engine, SamplingParams(), None, timings=False, known=("small", ("en",)))  # type: ignore[arg-type]
    talk.handle("法国的首都是哪里？")
    assert "small knows English" in capsys.readouterr().err
    talk.handle("What is the capital of France?")
    assert "knows" not in capsys.readouterr().err


@pytest.mark.models
def test_a_conversation_loses_its_oldest_turns_and_goes_on(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"Question {turn}: name a river and a city by the sea." for turn in range(5)]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    options = ["-t", "0", "-n", "40", "--ignore-eos", "--context", "192", "--system", "You are terse."]
    with pytest.raises(SystemExit) as left:
        main(["chat", "-m", str(smollm2_path), *options, "--truncation", "slide"])
    out, err = capsys.readouterr()
    assert left.value.code == 0 and "error[" not in err and "truncation: " in err and len(out) > 100
