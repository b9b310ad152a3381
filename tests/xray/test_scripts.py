"""Where a text slides into another script, and where that is no finding."""

from __future__ import annotations

import pytest

from cutaway.xray.scripts import main_script, script_slide

ENGLISH = "The capital of France is Paris, a large city on a river. "


@pytest.mark.parametrize(
    ("answer", "prompt", "at", "script"),
    [
        (ENGLISH + "它位于塞纳河畔。", "What is the capital of France?", len(ENGLISH), "Chinese"),
        (ENGLISH + "Она стоит на реке", "What is the capital of France?", len(ENGLISH), "Cyrillic"),
        ("法国的首都是巴黎。" + ENGLISH * 2, "法国的首都是哪里？", 9, "Latin"),
        ("서울은 수도입니다. " + ENGLISH * 2, "user\n수도는 어디입니까?", 11, "Latin"),
        ("Hangul: 서론에 이해", "법국의 수도", None, None),
    ],
)
def test_slides(answer: str, prompt: str, at: int | None, script: str | None) -> None:
    slide = script_slide(answer, prompt)
    assert (at, script) == (None, None) if slide is None else (slide.at, slide.script) == (at, script)


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [
        (ENGLISH + "它位于塞纳河畔。", "Tell me of Paris, first in English, then in Chinese."),
        (ENGLISH + "它位于塞纳河畔。", "Paris (巴黎) in two languages"),
        (ENGLISH + "It is called 巴黎 there.", "What is the capital of France?"),  # a quoted name
        ("法国的首都是巴黎 (Paris), 它位于塞纳河畔。", "法国的首都是哪里？"),
        (ENGLISH * 3, "What is the capital of France?"),
        ("巴黎是法国的首都，它位于塞纳河畔。", "What is the capital of France?"),  # no slide inside: all of it
        ("東京は日本の首都です。とても大きいです。", "日本の首都はどこですか"),
        ("用 `TransformerLens` 或者 the TransformerLens library from Neel Nanda 都可以", "用什么工具？"),
        ("这是代码：\n```python\n" + "print('a b c d e f g h')\n" * 20 + "```\n就是这样。", "写一个程序"),
        ("", ""), ("1234 5678 ++", "x"),
    ],
)  # fmt: skip
def test_what_was_asked_for_or_is_a_name_is_none(answer: str, prompt: str) -> None:
    assert script_slide(answer, prompt) is None


def test_main_script() -> None:
    assert main_script("東京は日本の首都です") == "Japanese"
    assert main_script("巴黎 is 法国的首都") == "Chinese"
    assert main_script("123") is None
