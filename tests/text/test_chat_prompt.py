"""The one way from a chat to the model: tools that a template does not show, and how a model is known to call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutaway.errors import ParameterError, TemplateError
from cutaway.text import ChatTemplate, TextLossWarning, chat_prompt, shows_tools, tool_format_of, traced_prompt
from cutaway.text.chat_prompt import RESERVED

Make = Callable[..., ChatTemplate]
PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
TOOLS = [{"type": "function", "function": {"name": "weather"}}]


def test_tools_that_a_template_does_not_show_are_described(template: Make) -> None:
    chat = [{"role": "developer", "content": [{"type": "text", "text": "Be kind."}]}, {"role": "user", "content": "Hi"}]
    with pytest.warns(TextLossWarning, match="does not show tools"):
        segments = chat_prompt(template(PLAIN), chat, tools=TOOLS, tool_format="hermes")
    text = "".join(segment.text for segment in segments)
    assert text.startswith("[system]Be kind.\n\nYou can call functions.") and '"weather"' in text
    with pytest.warns(TextLossWarning):
        text = "".join(s.text for s in chat_prompt(template(PLAIN), chat[1:], tools=TOOLS, tool_format="hermes"))
    assert text.startswith("[system]You can call") and text.endswith("[user]Hi")
    with pytest.raises(ParameterError, match="tools cannot be used"):
        chat_prompt(template(PLAIN), chat, tools=TOOLS)


def test_a_template_that_shows_tools_is_left_to_it(template: Make) -> None:
    shown = template("{{ tools | tojson }}" + PLAIN)
    assert shows_tools(shown) and not shows_tools(template(PLAIN))
    assert shows_tools(template(PLAIN, tool_use="{{ tools }}"))
    text = "".join(s.text for s in chat_prompt(shown, [{"role": "user", "content": "Hi"}], tools=TOOLS))
    assert text.startswith('[{"type": "function"') and text.endswith("[user]Hi")


def test_without_a_template() -> None:
    with pytest.raises(TemplateError, match="no chat template"):
        chat_prompt(None, [{"role": "user", "content": "Hi"}])


def test_the_format_of_calls(template: Make) -> None:
    assert tool_format_of(None, "smollm2-135m", "llama") == "smollm"
    assert tool_format_of(None, "mine", "qwen2") == "hermes"
    assert tool_format_of(template("[TOOL_CALLS]"), "qwen", "qwen2") == "mistral"
    assert tool_format_of(template(PLAIN), "mine", "gpt2") is None


def test_the_traced_prompt_is_the_same_prompt(template: Make) -> None:
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    with pytest.warns(TextLossWarning, match="does not show tools"):
        expected = chat_prompt(template(PLAIN), chat, tools=TOOLS, tool_format="hermes")
    with pytest.warns(TextLossWarning, match="does not show tools"):
        (segments, origins), added = traced_prompt(template(PLAIN), chat, tools=TOOLS, tool_format="hermes")
    text = "".join(segment.text for segment in segments)
    assert segments == expected and added.startswith("You can call functions.") and added in text
    assert [text[o.start : o.end] for o in origins if o.source == "messages[1].content"] == ["Hi"]
    assert traced_prompt(template(PLAIN), chat)[1] == ""


@pytest.mark.parametrize("name", ["guarding", "template", "source", "bit", "options", "clock", "strftime_now", "guard"])
def test_a_variable_may_have_the_name_of_a_parameter_of_ours(template: Make, name: str) -> None:
    made = template(PLAIN + "{{ " + name + " }}")
    chat = [{"role": "user", "content": "Hi"}]
    assert chat_prompt(made, chat, **{name: "given"})[-1].text.endswith("given")
    assert traced_prompt(made, chat, **{name: "given"})[0].origins[-1].source == name


@pytest.mark.parametrize("name", ["messages", "self"])
def test_names_that_a_variable_cannot_have(template: Make, name: str) -> None:
    assert name in RESERVED
    for made in (chat_prompt, traced_prompt):
        with pytest.raises(ParameterError, match=f"cannot be called {name}"):
            made(template(PLAIN), [{"role": "user", "content": "Hi"}], **{name: "given"})
