"""What a template does not look at is named once, whatever way it looks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from cutaway.text import ChatTemplate, TextLossWarning

Make = Callable[..., ChatTemplate]
MESSAGES = [{"role": "user", "content": "a", "name": "ann"}, {"role": "user", "content": "b", "name": "bob"}]


def said(template: ChatTemplate, messages: list[dict[str, Any]] = MESSAGES) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        template.render(messages)
    assert all(warning.category is TextLossWarning for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("{{ m.content }}", 1), ("{{ m.content }}{{ m.name }}", 0), ("{{ m['content'] }}{{ m['name'] }}", 0),
        ("{{ m.content }}{{ m.get('name') }}", 0), ("{{ m | tojson }}", 0), ("{{ m.items() | list }}", 0),
        ("{% for k, v in m.items() %}{{ v }}{% endfor %}", 0), ("{{ m.content }}{{ 'name' in m }}", 1),
        ("{{ m.values() | list }}", 0), ("{{ m.name }}", 1), ("x", 2), ("{{ m.content }}{{ m | length }}", 1),
    ],
)  # fmt: skip
def test_ways_to_look(template: Make, expression: str, count: int) -> None:
    found = said(template("{% for m in messages %}" + expression + "{% endfor %}"))
    assert len(found) == count
    assert all("messages 1, 2: " in warning for warning in found)


def test_what_says_nothing_needs_no_warning(template: Make) -> None:
    silent = {"role": "assistant", "content": "", "id": "x", "annotations": [], "audio": None, "refusal": ""}
    silent |= {"prefix": False}
    assert said(template("x"), [silent]) == []


def test_a_turn_that_a_template_leaves_out(template: Make) -> None:
    source = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
    (warning,) = said(template(source), [{"role": "user", "content": "a"}, {"role": "critic", "content": "b"}])
    assert warning.startswith("message 2: content is not shown")
