"""The one conversion of a chat to the model's input, for every route of the server and for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutaway.errors import ParameterError
from cutaway.text.chat.messages import checked_messages
from cutaway.text.chat.origins import Traced, traced
from cutaway.text.chat.template import ChatTemplate, require_template
from cutaway.text.lost_text import warn_of_loss
from cutaway.text.tokenizer.tokenizer import Segment
from cutaway.text.tools.formats import detect_tool_format, renders_tools, tool_instructions

RESERVED = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "tool_format", "self"}
)
"""What a variable of a template cannot be called: a request gives it elsewhere, or Jinja has its own."""
TOOLS_DESCRIBED = "this model's template does not show tools; they are described in the system message"


def chat_prompt(
    template: ChatTemplate | None, messages: Sequence[Mapping[str, Any]], /, *,
    tools: Sequence[Mapping[str, Any]] | None = None, tool_format: str | None = None, **options: Any,
) -> list[Segment]:  # fmt: skip
    """The chat as text and markers (see `ChatTemplate.render`, which takes the options).

    tools: if the template does not show them they are described in the system message, with a warning. tool_format: the
    model's format of calls, or None if it is not known. Fields that the template ignores are a warning, too
    (TextLossWarning). Raises TemplateError, and ParameterError for tools if the format of calls is not known.
    """
    known, messages, tools, added = _with_tools(template, messages, tools, tool_format)
    if added:
        warn_of_loss(TOOLS_DESCRIBED, stacklevel=3)
    return known.render(messages, tools=tools or None, **options)


def traced_prompt(
    template: ChatTemplate | None, messages: Sequence[Mapping[str, Any]], /, *,
    tools: Sequence[Mapping[str, Any]] | None = None, tool_format: str | None = None, **options: Any,
) -> tuple[Traced, str]:  # fmt: skip
    """As `chat_prompt`, with the origin of each character (see `traced`); and what was put into the system message to
    describe the tools, "" where the template shows them. Raises and warns as `chat_prompt`."""
    known, messages, tools, added = _with_tools(template, messages, tools, tool_format)
    if added:
        warn_of_loss(TOOLS_DESCRIBED, stacklevel=3)
    return traced(known, messages, tools=tools or None, **options), added


def _with_tools(
    template: ChatTemplate | None, messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None, tool_format: str | None,
) -> tuple[ChatTemplate, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]] | None, str]:  # fmt: skip
    """The template; the messages and tools that it is given; and what was added to a message to describe the tools."""
    known = require_template(template)
    if not tools or shows_tools(known):
        return known, messages, tools, ""
    if tool_format is None:
        raise ParameterError(
            "tools cannot be used: neither the model's template nor its family defines a tool-call format",
            code="tools_unsupported",
        )
    added = tool_instructions(tool_format, tools)
    return known, _instructed(checked_messages(messages), added), None, added


def tool_format_of(template: ChatTemplate | None, name: str, family: str) -> str | None:
    """The model's format of tool calls, by its template, its name or its family (a name says more: SmolLM2 is a llama
    with a format of its own); None if it is not known."""
    source = template.source if template is not None else None
    return detect_tool_format(source, name) or detect_tool_format(source, family)


def shows_tools(template: ChatTemplate) -> bool:
    """Whether the template shows the tools to the model."""
    return renders_tools(template.source) or "tool_use" in template.named


def _instructed(messages: list[dict[str, Any]], instructions: str) -> list[dict[str, Any]]:
    """The messages with the instructions at the end of the system message, or as a system message."""
    first = messages[0]
    if first["role"] == "system":
        return [{**first, "content": f"{first['content']}\n\n{instructions}"}, *messages[1:]]
    return [{"role": "system", "content": instructions}, *messages]
