"""Converts the responses API's input, tools and format to the dialogue that templates use. Nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from cutaway.server.api.schemas import STATEFUL, CountInput
from cutaway.server.generation.chat_request import Dialogue, chosen_tools
from cutaway.server.transport.errors import bad_request

LOGPROBS = "message.output_text.logprobs"
_REASONED = "reasoned"  # an assistant's message that has only its reasoning so far
_ITEMS = {
    "message": ("type", "role", "content", "id", "status"),
    "function_call": ("type", "id", "call_id", "name", "arguments", "status"),
    "function_call_output": ("type", "id", "call_id", "output", "status"),
    "reasoning": ("type", "id", "content", "summary", "encrypted_content", "status"),
}
"""The fields of items that are used, or that have no meaning for a model."""
_ROLES = ("user", "assistant", "system", "developer")


def dialogue_of(fields: CountInput) -> Dialogue:
    """The dialogue of a request. Raises ApiError, which names the field that is not supported."""
    for name in STATEFUL:
        if (fields.model_extra or {}).get(name) not in (None, False):
            _fail(
                f"{name} is not supported: this server does not store responses; send the whole input",
                name,
                "parameter_unsupported",
            )
    if fields.include:
        known = {"reasoning.encrypted_content", LOGPROBS}
        if wrong := [name for name in fields.include if name not in known]:
            _fail(f"include has {wrong[0]!r}, which is not supported", "include", "parameter_unsupported")
    chat: list[dict[str, Any]] = []
    warnings: list[str] = []
    if fields.instructions is not None:
        chat.append({"role": "system", "content": fields.instructions})
    if isinstance(fields.input, str):
        chat.append({"role": "user", "content": fields.input})
    else:
        for number, item in enumerate(fields.input):
            _add(chat, item, f"input.{number}", warnings)
    for message in chat:
        if message["role"] == _REASONED:
            message |= {"role": "assistant", "content": ""}
    tools, choice, name_ = chosen_tools(_tools(fields), fields.tool_choice)
    return Dialogue(
        messages=chat, tools=tools, tool_choice=choice, tool_name=name_,
        parallel=fields.parallel_tool_calls is not False,
        truncation=fields.truncation or "error", warnings=tuple(warnings),
    )  # fmt: skip


def _tools(fields: CountInput) -> list[dict[str, Any]] | None:
    """The tools in the format of chat completions."""
    made = []
    for number, tool in enumerate(fields.tools or ()):
        if tool.get("type") != "function":
            _fail(
                f"tools.{number} is of type {tool.get('type')!r}; only functions are supported",
                "tools",
                "parameter_unsupported",
            )
        function = {key: value for key, value in tool.items() if key != "type" and value is not None}
        made.append({"type": "function", "function": function})
    return made or None


def _add(chat: list[dict[str, Any]], item: Mapping[str, Any], where: str, warnings: list[str]) -> None:
    """Add an item as a message or as part of one: the reasoning, text and calls of a turn form one message."""
    kind = item.get("type") or "message"
    for field, value in item.items():
        if field not in _ITEMS.get(kind, item) and value not in (None, "", [], {}, False):
            warnings.append(f"{where}.{field} is not shown to the model")
    if kind == "message":
        role = item.get("role")
        if role not in _ROLES:
            _fail(f"{where}.role is {role!r}; it must be one of {', '.join(_ROLES)}")
        text = _text(item.get("content"), where, warnings)
        if role == "assistant" and chat and chat[-1]["role"] == _REASONED:
            chat[-1] |= {"role": role, "content": text}
        else:
            chat.append({"role": role, "content": text})
    elif kind == "function_call":
        call = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
        made = {"id": item.get("call_id"), "type": "function", "function": call}
        if chat and chat[-1]["role"] in ("assistant", _REASONED):
            chat[-1]["role"] = "assistant"
            chat[-1].setdefault("content", "")
            chat[-1].setdefault("tool_calls", []).append(made)
        else:
            chat.append({"role": "assistant", "content": "", "tool_calls": [made]})
    elif kind == "function_call_output":
        output = item.get("output")
        chat.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": _text(output, where, warnings)})
    elif kind == "reasoning":
        _reason(chat, item, where, warnings)
    else:
        _fail(f"{where} is of type {kind!r}, which is not supported")


def _reason(chat: list[dict[str, Any]], item: Mapping[str, Any], where: str, warnings: list[str]) -> None:
    """Add the reasoning of the following message or call. Without content, the summary is used."""
    parts = item.get("content") or item.get("summary") or []
    if not isinstance(parts, list) or not all(isinstance(p, Mapping) and isinstance(p.get("text"), str) for p in parts):
        _fail(f"{where} must have content: a list of {{type: 'reasoning_text', text}}")
    if item.get("encrypted_content"):
        warnings.append(f"{where}.encrypted_content cannot be read and was left out")
    if item.get("content") and item.get("summary"):
        warnings.append(f"{where}.summary was left out, because the reasoning itself is present")
    text = "\n\n".join(part["text"] for part in parts if part["text"])
    if not text:
        return
    if chat and chat[-1]["role"] == _REASONED:
        chat[-1]["reasoning_content"] += f"\n\n{text}"
    else:
        chat.append({"role": _REASONED, "reasoning_content": text})


def _text(content: Any, where: str, warnings: list[str]) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        _fail(f"{where}.content must be a string or a list of parts")
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in ("input_text", "output_text", "text") or not isinstance(part.get("text"), str):
            _fail(
                f"{where}.content.{number} is of type {kind!r}; this model reads text parts only",
                code="content_unsupported",
            )
        for field, value in part.items():
            if field not in ("type", "text", "logprobs") and value not in (None, "", [], {}, False):
                warnings.append(f"{where}.content.{number}.{field} is not shown to the model")
    return "".join(part["text"] for part in content)


def response_format(fields: CountInput) -> tuple[str, dict[str, Any]] | None:
    """The field `text` and its format as a `response_format`."""
    format = (fields.text or {}).get("format")
    if not isinstance(format, Mapping):
        return None
    if format.get("type") != "json_schema":
        return "text", dict(format)
    return "text", {"type": "json_schema", "json_schema": {"schema": format.get("schema")}}


def _fail(what: str, param: str = "input", code: str = "parameter_invalid") -> NoReturn:
    raise bad_request(what, param, code)
