"""`cutaway run` with a form and a model that reasons: the form begins where the reasoning ends.

The model is random; a bias makes it close its reasoning at once, or never.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cutaway.cli import main
from text.conftest import byte_level
from tiny_llama import write_gguf

OPENS = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n{# closed by </think> #}"
FORM = ("--one-of", "yes", "--one-of", "no")


class Run:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder, self._capsys = folder, capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str, template: str = OPENS, status: int = 0) -> str:
        keys = byte_level() | {"tokenizer.chat_template": template}
        path = write_gguf(self._folder / "tiny.gguf", keys)
        closing = keys["tokenizer.ggml.tokens"].index("</think>")
        common = ["--seed", "3", "-t", "1", "-n", "12", "--logit-bias", f"{closing}=100"]
        with pytest.raises(SystemExit) as left:
            main(["run", "-m", str(path), "hello", *common, *arguments])
        self.out, self.err = self._capsys.readouterr()
        assert left.value.code == status, self.err
        return self.out


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return Run(tmp_path, capsys)


def test_the_form_alone_is_on_standard_output(run: Run) -> None:
    assert run(*FORM) in ("yes\n", "no\n")
    told: dict[str, Any] = json.loads(run(*FORM, "--json"))
    assert told["text"] in ("yes", "no") and told["reasoning"] == ""
    several = json.loads(run(*FORM, "--json", "--choices", "2"))["choices"]
    assert [choice["text"] in ("yes", "no") for choice in several] == [True, True] and "reasoning" in several[1]


def test_reasoning_goes_to_standard_error(run: Run) -> None:
    """Its markers are given, and never come: all is reasoning, and the form never begins."""
    assert run(*FORM, "--reasoning", "<think>,</never>").strip() == ""
    assert len(run.err.strip()) > 3
    told = json.loads(run(*FORM, "--reasoning", "<think>,</never>", "--json"))
    assert told["text"] == "" and told["reasoning"] and told["finish_reason"] == "length"


@pytest.mark.parametrize("more", [("--reasoning", "off"), ("--raw",)])
def test_without_reasoning_the_form_begins_at_once(run: Run, more: tuple[str, ...]) -> None:
    told = json.loads(run(*FORM, *more, "--json"))
    assert told["text"] in ("yes", "no") and "reasoning" not in told
    assert len(told["token_ids"]) < 5


def test_a_template_without_markers_and_an_answer_without_form_are_as_ever(run: Run) -> None:
    plain = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert "reasoning" not in json.loads(run(*FORM, "--json", template=plain))
    assert "</think>" in run() and "reasoning" not in json.loads(run("--json"))


def test_wrong_markers_are_refused_before_anything_is_loaded(run: Run) -> None:
    for wrong in ("<think>", ",</think>", "<think>,", "on"):
        run(*FORM, "--reasoning", wrong, status=2)
        assert "--reasoning" in run.err and "START,END" in run.err
