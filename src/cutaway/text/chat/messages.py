"""Converts chat messages, in the forms that programs send, to the one form that templates expect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from cutaway.errors import TemplateError

# Some templates write "<|" + role + "|>": a role is a name, never a piece of markup.
REASONING = ("reasoning_content", "reasoning", "thinking")
"""The names of an assistant's reasoning in servers and templates."""
_ROLE = re.compile(r"[\w.-]{1,64}")


def checked_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copies of the messages with `content` as one string and the arguments of tool calls as mappings.

    Text parts of a content array are concatenated; content that is null or missing beside tool calls or reasoning
    becomes "", or the text of a refusal. The role `developer` becomes `system`. The reasoning of an assistant becomes
    `reasoning_content`, under whichever name it was sent.

    Raises:
        TemplateError: there are no messages, or one is not a mapping, has no usable role or content, or has a part that
            is not text.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise TemplateError(
            f"messages must be a list of messages, not {type(messages).__name__}", code="messages_invalid"
        )
    if not messages:
        raise TemplateError("messages is empty: a chat needs at least one message", code="messages_invalid")
    return [_message(message, f"message {number}") for number, message in enumerate(messages, 1)]


def checked_mappings(values: Iterable[Mapping[str, Any]] | None, name: str) -> list[Mapping[str, Any]] | None:
    """`tools` or `documents`: None, or a list of mappings."""
    if values is None:
        return None
    if isinstance(values, str | bytes | Mapping):
        _fail(f"{name} must be a list, not {type(values).__name__}")
    checked = list(values)
    for number, value in enumerate(checked, 1):
        if not isinstance(value, Mapping):
            _fail(f"{name}: entry {number} must be an object, not {type(value).__name__}")
    return checked


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        _fail(f"{where} must be an object with a role and content, not {type(message).__name__}")
    role = message.get("role")
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        _fail(f"{where}: role must be a name such as 'user', not {role!r}")
    made = {key: value for key, value in message.items() if value is not None}
    if calls := made.pop("tool_calls", None):
        made["tool_calls"] = _tool_calls(calls, where)
    if role == "developer":  # OpenAI's newer name of the role; templates use the older one
        made["role"] = "system"
    elif role == "assistant":
        _reasoning(made, where)
    content = made.get("content")
    if content is None and role == "assistant" and isinstance(made.get("refusal"), str):
        content = made.pop("refusal")
    made["content"] = _content(content, where, optional="tool_calls" in made or "reasoning_content" in made)
    return made


def _reasoning(message: dict[str, Any], where: str) -> None:
    said = {name: message.pop(name) for name in REASONING if isinstance(message.get(name), str)}
    if len(set(said.values())) > 1:
        _fail(f"{where}: {' and '.join(said)} have the same meaning but different values")
    if any(said.values()):
        message["reasoning_content"] = next(iter(said.values()))


def _content(content: Any, where: str, *, optional: bool) -> str:
    if content is None:
        if not optional:
            _fail(f"{where}: content is missing")
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        _fail(f"{where}: content must be a string or a list of parts, not {type(content).__name__}")
    return "".join(_part(part, f"{where}, part {number}") for number, part in enumerate(content, 1))


def _part(part: Any, where: str) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind != "text":
        what = f"of type {kind!r}" if isinstance(part, Mapping) else f"a {type(part).__name__}"
        raise TemplateError(f"{where} is {what}; this model reads text parts only", code="content_unsupported")
    text = part.get("text")
    if not isinstance(text, str):
        _fail(f"{where}: text must be a string, not {type(text).__name__}")
    return text


def _tool_calls(calls: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(calls, Sequence) or isinstance(calls, str | bytes):
        _fail(f"{where}: tool_calls must be a list, not {type(calls).__name__}")
    return [_tool_call(call, f"{where}, tool call {number}") for number, call in enumerate(calls, 1)]


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        _fail(f"{where} must be an object that names a function")
    if not isinstance(function.get("name"), str):
        _fail(f"{where}: the function's name must be a string, not {type(function.get('name')).__name__}")
    made = {**function, "arguments": _arguments(function.get("arguments"), where)}
    return {**call, "function": made} if "function" in call else made


def _arguments(arguments: Any, where: str) -> Any:
    """Arguments as a mapping: a string contains them as JSON, which templates would otherwise encode a second time."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise TemplateError(f"{where}: arguments is not valid JSON: {error}", code="messages_invalid") from error
    if not isinstance(arguments, Mapping):
        _fail(f"{where}: arguments must be an object, not {type(arguments).__name__}")
    return arguments


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _fail(what: str) -> NoReturn:
    raise TemplateError(what, code="messages_invalid")
