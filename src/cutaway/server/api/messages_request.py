"""Converts Anthropic's messages, tools and tool choice to the dialogue that templates use."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn

from cutaway.server.api.schemas import ELSEWHERE, CountTokens, Messages
from cutaway.server.generation.chat_request import Dialogue, chosen_tools
from cutaway.server.transport.errors import bad_request


def dialogue_of(fields: CountTokens) -> Dialogue:
    """The dialogue of a request. Raises ApiError, which names the field that is not supported."""
    for field in ELSEWHERE:
        if (fields.model_extra or {}).get(field):
            _fail(f"{field} is not supported: this server executes no programs", field, "parameter_unsupported")
    chat: list[dict[str, Any]] = []
    if fields.system is not None:
        chat.append({"role": "system", "content": _texts(fields.system, "system")})
    warnings: list[str] = []
    for number, message in enumerate(fields.messages):
        chat += _message(message, f"messages.{number}", warnings)
    continued = bool(chat) and chat[-1]["role"] == "assistant"
    if continued and "tool_calls" in chat[-1]:
        _fail("messages: the last one calls a tool; its result (tool_result) must follow")
    tools, choice, name = chosen_tools(*_tools(fields))
    variables: dict[str, Any] = {}
    budget, thinks = None, False
    if fields.thinking is not None:
        thinks = fields.thinking.get("type") in ("enabled", "adaptive")
        variables["enable_thinking"] = thinks
        budget = fields.thinking.get("budget_tokens") if thinks else None
        if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool)):
            _fail(f"thinking.budget_tokens is {budget!r:.40}; it must be a number of tokens", "thinking")
    return Dialogue(
        messages=chat, tools=tools, tool_choice=choice, tool_name=name,
        parallel=not (fields.tool_choice or {}).get("disable_parallel_tool_use"), variables=variables,
        truncation=fields.truncation or "error", reasoning_budget=budget,
        continue_final_message=continued, thinks=thinks, warnings=tuple(warnings),
    )  # fmt: skip


def response_format(fields: Messages) -> tuple[str, dict[str, Any]] | None:
    """The name and the `response_format` of `output_config`, or of `output_format`, its older name."""
    where = "output_format" if fields.output_format is not None else "output_config"
    format = fields.output_format or (fields.output_config or {}).get("format")
    if format is None:
        return None
    if not isinstance(format, Mapping) or format.get("type") != "json_schema":
        _fail(f"{where} has a format that is not supported; it may be {{type: 'json_schema', schema}}", where)
    if not isinstance(format.get("schema"), dict | bool):
        _fail(f"{where} must have a JSON schema, but has {format.get('schema')!r:.80}", where)
    return where, {"type": "json_schema", "json_schema": {"schema": format["schema"]}}


def _tools(fields: CountTokens) -> tuple[list[dict[str, Any]], Any]:
    """The tools and the tool choice in OpenAI's format."""
    tools = []
    for number, tool in enumerate(fields.tools or ()):
        if tool.get("type", "custom") != "custom":
            _fail(f"tools.{number} is of type {tool['type']!r}; only custom tools are supported", "tools")
        function = {"name": tool.get("name"), "parameters": tool.get("input_schema") or {"type": "object"}}
        if tool.get("description"):
            function["description"] = tool["description"]
        if tool.get("strict") is not None:
            function["strict"] = tool["strict"]
        tools.append({"type": "function", "function": function})
    kind = (fields.tool_choice or {}).get("type", "auto")
    if kind == "tool":
        return tools, {"name": (fields.tool_choice or {}).get("name")}
    if kind not in ("auto", "any", "none"):
        _fail(f"tool_choice.type is {kind!r}; it must be 'auto', 'any', 'tool' or 'none'", "tool_choice")
    return tools, "required" if kind == "any" else kind


def _message(message: Mapping[str, Any], where: str, warnings: list[str]) -> Iterable[dict[str, Any]]:
    """One message, or several, because each tool result becomes a message of its own."""
    _warn_of(message, ("role", "content"), where, warnings)
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        _fail(f"{where}.role is {role!r}; it must be 'user' or 'assistant'")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list):
        _fail(f"{where}.content must be a string or a list of blocks")
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    thinking: list[str] = []
    for number, block in enumerate(content):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind in _BLOCKS:
            _warn_of(block, _BLOCKS[kind], f"{where}.content.{number}", warnings)
        if kind == "text" and isinstance(block.get("text"), str):
            text.append(block["text"])
        elif kind == "tool_use":
            call = {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {}, ensure_ascii=False)}
            calls.append({"id": block.get("id"), "type": "function", "function": call})
        elif kind == "tool_result":
            result = _texts(block.get("content") or "", f"{where}.content.{number}")
            result = f"Error: {result}" if block.get("is_error") else result
            results.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": result})
        elif kind == "thinking" and isinstance(block.get("thinking"), str):
            thinking.append(block["thinking"])
        elif kind == "redacted_thinking":
            warnings.append(f"{where}.content.{number}: redacted thinking cannot be read and was left out")
        else:
            _fail(f"{where}.content.{number} is of type {kind!r}; this model reads text, tool_use and tool_result")
    made: list[dict[str, Any]] = []
    if text or calls or thinking or not results:
        made.append({"role": role, "content": "".join(text)} | ({"tool_calls": calls} if calls else {}))
    if any(thinking):
        made[-1]["reasoning_content"] = "\n\n".join(filter(None, thinking))
    return [*results, *made]


_BLOCKS = {
    "text": ("type", "text", "cache_control"), "tool_use": ("type", "id", "name", "input", "cache_control", "caller"),
    "tool_result": ("type", "tool_use_id", "content", "is_error", "cache_control"),
    "thinking": ("type", "thinking", "signature"),
}  # fmt: skip
"""The fields of blocks that are used, or that have no meaning for a model."""


def _warn_of(given: Mapping[str, Any], known: Collection[str], where: str, warnings: list[str]) -> None:
    """Warn of fields that are left out."""
    for field, value in given.items():
        if field not in known and value not in (None, "", [], {}, False):
            warnings.append(f"{where}.{field} is not shown to the model")


def _texts(content: Any, where: str) -> str:
    """A string, or the concatenation of text blocks."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        if not (isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            _fail(f"{where} has a part of type {kind!r}; only text is supported", where.partition(".")[0])
    return "".join(part["text"] for part in parts)


def _fail(what: str, param: str = "messages", code: str = "parameter_invalid") -> NoReturn:
    raise bad_request(what, param, code)
