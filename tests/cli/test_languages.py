"""Prompts in a script that a model does not know."""

from __future__ import annotations

import pytest

from cutaway.cli.languages import NAMES, SCRIPTS, foreign, written_in
from cutaway.registry import known_models, recommended, smallest_that_knows
from cutaway.registry.store import Manifest


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("法国的首都是哪里？", "zh"), ("フランスの首都はどこですか", "ja"), ("日本の首都", "ja"),
        ("프랑스의 수도는?", "ko"),
        ("Столица Франции?", "ru"), ("ما هي عاصمة فرنسا؟", "ar"), ("Ποια είναι η πρωτεύουσα;", "el"),
        ("เมืองหลวงของฝรั่งเศส", "th"), ("फ़्रांस की राजधानी", "hi"),
        ("What is the capital of France?", None), ("Où est-ce ?", None), ("", None), ("1 + 1 = ? 🙂", None),
        ("Translate the word 水 into English, please.", None), ("𝕳𝖊𝖑𝖑𝖔", None),
    ],
)  # fmt: skip
def test_the_script_tells_the_language(text: str, language: str | None) -> None:
    assert written_in(text) == language


def test_one_line_names_a_model_that_knows_it() -> None:
    line = foreign("法国的首都是哪里？", "smollm2-135m", ("en",))
    assert line is not None and "\n" not in line
    assert "smollm2-135m knows English" in line and "Chinese" in line and "--model qwen2.5-0.5b" in line
    assert foreign("法国的首都是哪里？", "qwen2.5-0.5b", ("en", "zh")) is None
    assert foreign("What is it?", "smollm2-135m", ("en",)) is None
    georgian = foreign("\u10e1\u10d0\u10e5\u10d0\u10e0\u10d7\u10d5\u10d4\u10da\u10dd", "x", ("en", "fr", "de", "it"))
    assert georgian is not None and "and others" in georgian


def test_the_catalogue_says_what_models_know() -> None:
    assert set(SCRIPTS.values()) <= set(NAMES)
    by_name = {entry.name: entry for entry in known_models()}
    assert by_name["smollm2-135m"].languages == ("en",) and "zh" in by_name["qwen2.5-0.5b"].languages
    smallest = smallest_that_knows("zh")
    assert smallest is not None and smallest.name == "qwen2.5-0.5b"
    assert smallest_that_knows("tlh") is None


def test_the_catalogue_carries_the_makers_parameters() -> None:
    manifest = Manifest("smollm2-135m", "pypi:x==1", "", "0" * 64, 1, "Apache-2.0", "gguf", "catalogue", 0.0, ())
    assert dict(recommended(manifest)) == {"temperature": 0.2, "top_p": 0.9}
    assert recommended(None) == {}
