"""Every character of a rendered chat is traced to the string that it came from, whatever the template does with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from cutaway.errors import TemplateError
from cutaway.text import ChatTemplate
from cutaway.text.chat.origins import CLOCK, Traced, traced

pytestmark = pytest.mark.filterwarnings("ignore:.*does not read it")

Make = Callable[..., ChatTemplate]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def by_source(result: Traced) -> list[tuple[str | None, str]]:
    text = "".join(segment.text for segment in result.segments)
    assert [o.end for o in result.origins[:-1]] == [o.start for o in result.origins[1:]]
    assert not text or (result.origins[0].start, result.origins[-1].end) == (0, len(text))
    return [(source, text[start:end]) for start, end, source in result.origins]


def test_a_chat(template: Make) -> None:
    chat = [{"role": "system", "content": "<|im_end|>"}, {"role": "user", "content": "x"}]
    assert by_source(traced(template(CHATML), chat)) == [
        ("", "<|im_start|>"), ("messages[0].role", "system"), ("", "\n"), ("messages[0].content", "<|im_end|>"),
        ("", "<|im_end|>\n<|im_start|>"), ("messages[1].role", "user"), ("", "\n"), ("messages[1].content", "x"),
        ("", "<|im_end|>\n<|im_start|>assistant\n"),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 3, 7, 30])
def test_every_message_of_a_long_chat_has_its_number(template: Make, count: int) -> None:
    draw = random.Random(count)
    texts = ["".join(draw.choices("ab<|im_end|>", k=draw.randrange(40))) for _ in range(count)]
    chat = [{"role": "user", "content": text} for text in texts]
    result = traced(template(CHATML), chat)
    found = dict.fromkeys((f"messages[{n}].content" for n in range(count)), "")
    for source, text in by_source(result):
        if source in found:
            found[source] += text
    assert list(found.values()) == texts
    assert result.segments == template(CHATML).render(chat)


@pytest.mark.parametrize(
    "source",
    [
        "A{{ messages[0].content | upper | lower }}B",
        "A{{ messages[0].content.split('@') | join('B') }}",
        "A{{ messages[0].content.replace('@', 'B') }}",
        "A{{ messages[0].content ~ 'B' ~ messages[0].content }}",
        "A{{ messages[0].content[:5] + 'B' + messages[0].content[5:] }}",
        "{% macro f(c) %}A{{ c }}B{% endmacro %}{{ f(messages[0].content) | trim }}",
        "{% set c %}A{{ messages[0].content }}{% endset %}{{ c }}",
        "{% for c in messages[0].content %}A{{ c }}{% endfor %}",
        "{{ 'A%sB' | format(messages[0].content) }}",
        "A{{ messages[0].content.strip() }}B",
        "A{{ messages[0].content.partition('|')[1:] | join }}",
        "{% if 'im_' in messages[0].content %}A{% endif %}{{ messages[0].content.split('im_')[-1] }}",
        "{% set ns = namespace(c='') %}{% for m in messages %}{% set ns.c = ns.c + 'A' + m.content %}{% endfor %}"
        "{{ ns.c }}",
    ],
)
@pytest.mark.parametrize("content", ["a<|im_end|>\n", " <|im_@end|>b", "你好 é\U0001f642x", "x<|im_"])
def test_no_detour_loses_the_origin(template: Make, source: str, content: str) -> None:
    """The template's own characters are A and B; all others come from the message."""
    for where, text in by_source(traced(template(source), [{"role": "user", "content": content}])):
        assert (where == "") == (not set(text) - {"A", "B"}), (where, text)
        assert where in ("", "messages[0].content")


def test_json_escapes_belong_to_what_they_stand_for(template: Make) -> None:
    tools: Any = [{"name": 'a"b\n', "é": ["c"]}]
    for ascii in ("false", "true"):
        source = "{{ tools | tojson(ensure_ascii=" + ascii + ") }}"
        found = by_source(traced(template(source), [{"role": "user", "content": "x"}], tools=tools))
        key = "\\u00e9" if ascii == "true" else "é"
        assert found == [
            ("", '[{"'), ("tools[0].name", "name"), ("", '": "'), ("tools[0].name", 'a\\"b\\n'), ("", '", "'),
            ("tools[0].é", key), ("", '": ["'), ("tools[0].é[0]", "c"), ("", '"]}]'),
        ]  # fmt: skip


def test_the_clock_is_a_source_of_its_own(template: Make) -> None:
    source = "{{ strftime_now('%Y') }} {{ messages[0].content }}{{ strftime_now('%H:%M:%S.%f') }}"
    found = by_source(traced(template(source), [{"role": "user", "content": "2026"}]))
    assert [where for where, _ in found] == [CLOCK, "", "messages[0].content", CLOCK]


def test_variables_and_a_continued_message(template: Make) -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b "}]
    result = traced(template("{{ tone }}" + CHATML), chat, tone="calm", continue_final_message=True)
    assert by_source(result)[0] == ("tone", "calm")
    assert by_source(result)[-1] == ("messages[1].content", "b ")


def test_what_cannot_be_told_is_not_guessed(template: Make) -> None:
    """`title` sees letters behind noncharacters as first ones: the marked text is another one."""
    result = traced(template("{{ messages[0].content.title() }}!"), [{"role": "user", "content": "some words"}])
    assert by_source(result) == [(None, "Some Words!")]


def test_it_fails_and_warns_as_rendering_does(template: Make) -> None:
    with pytest.raises(TemplateError, match="no, thanks"):
        traced(template("{{ raise_exception('no, ' + messages[0].content) }}"), [{"role": "user", "content": "thanks"}])
    with pytest.warns(UserWarning, match="name is not shown") as caught:
        traced(template(CHATML), [{"role": "user", "content": "x", "name": "n"}])
    assert len(caught) == 1
