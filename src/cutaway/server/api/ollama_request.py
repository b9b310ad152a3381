"""Ollama's requests: their fields, and their conversion to a dialogue and sampling parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NoReturn

from annotated_types import Ge

from cutaway.server.api.sampling import Form
from cutaway.server.api.schemas import Choosing, Fields
from cutaway.server.api.validation import read_fields
from cutaway.server.generation.chat_request import Dialogue, chosen_tools
from cutaway.server.transport.errors import bad_request

OF_SERVER = frozenset({
    "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa", "low_vram",
    "f16_kv", "vocab_only", "logits_all",
})  # fmt: skip
"""Options of loading a model, which only the server's config can set here."""
NOT_OBEYED = frozenset({"num_keep", "repeat_last_n", "penalize_newline", "tfs_z"})
_WHOLE = frozenset({"num_predict", "seed", "top_k", "mirostat"})


class OllamaOptions(Choosing):
    """The keys of `options`: Ollama's names and every sampling parameter of the other routes."""

    num_predict: Annotated[int, Ge(-2)] | None = None


class OllamaFields(Fields):
    """The fields that /api/chat and /api/generate share."""

    without_effect: ClassVar[tuple[str, ...]] = ("keep_alive", "truncate", "shift")
    model: str | None = None
    stream: bool = True
    options: dict[str, Any] | None = None
    format: str | dict[str, Any] | None = None
    think: bool | str | None = None
    strict: bool | None = None


class OllamaChat(OllamaFields):
    """POST /api/chat"""

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None


class OllamaGenerate(OllamaFields):
    """POST /api/generate"""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    images: list[Any] | None = None
    raw: bool | None = None


class OllamaName(Fields):
    """POST /api/show; `name` is the older name of `model`."""

    without_effect: ClassVar[tuple[str, ...]] = ("verbose", "system", "template", "options")
    model: str | None = None
    name: str | None = None


class OllamaEmbed(Fields):
    """POST /api/embed and /api/embeddings"""

    without_effect: ClassVar[tuple[str, ...]] = ("keep_alive", "truncate", "options", "dimensions")
    model: str | None = None
    input: str | list[str] | None = None
    prompt: str | None = None


def model_name(name: str | None) -> str | None:
    """The name without Ollama's tag `latest`, which is optional."""
    return name.removesuffix(":latest") if name is not None else None


def chosen(fields: OllamaFields) -> tuple[OllamaOptions, list[str]]:
    """The options as sampling parameters, and warnings about those that are ignored. Raises ApiError."""
    given: dict[str, Any] = {}
    warnings: list[str] = []
    for name, value in (fields.options or {}).items():
        if name in OF_SERVER:
            warnings.append(f"option {name} was ignored: the server's config sets how a model is loaded")
        elif name in NOT_OBEYED:
            warnings.append(f"option {name} was ignored: it is not supported")
        else:
            given[name] = int(value) if name in _WHOLE and isinstance(value, float) and value.is_integer() else value
    options, more = read_fields(OllamaOptions, given, strict=bool(fields.strict))
    known = {"model": model_name(fields.model)}
    if options.num_predict is not None and options.num_predict >= 0:  # -1 and -2: until the context is full
        known["max_tokens"] = options.num_predict  # type: ignore[assignment]
    return options.model_copy(update=known), warnings + more


def form_of(fields: OllamaFields) -> Form | None:
    """`format` as a `response_format`. Raises ApiError."""
    if not fields.format:
        return None
    if fields.format == "json":
        return "format", {"type": "json_object"}
    if isinstance(fields.format, str):
        _fail(f"format is {fields.format!r}; it must be 'json' or a JSON schema", "format")
    return "format", {"type": "json_schema", "json_schema": {"schema": fields.format}}


def chat_dialogue(fields: OllamaChat) -> Dialogue:
    """The dialogue of /api/chat. Raises ApiError, which names the field that is not supported."""
    tools, choice, name = chosen_tools(fields.tools, None)
    chat: list[dict[str, Any]] = []
    open_calls: list[str] = []
    for number, message in enumerate(fields.messages or ()):
        chat.append(_message(message, f"messages.{number}", open_calls))
    return Dialogue(chat, tools=tools, tool_choice=choice, tool_name=name, variables=_thinking(fields))


def prompt_dialogue(fields: OllamaGenerate) -> Dialogue:
    """The dialogue of /api/generate, which has one turn."""
    system = [{"role": "system", "content": fields.system}] if fields.system else []
    return Dialogue([*system, {"role": "user", "content": fields.prompt or ""}], variables=_thinking(fields))


def check_generate(fields: OllamaGenerate) -> None:
    """Raises ApiError for fields that would change the answer and are not supported."""
    if fields.images:
        _fail("images are not supported: this server serves text models only", "images", "content_unsupported")
    if fields.template:
        _fail("template is not supported: the model's own is used; with raw the prompt is used as it is", "template")
    if fields.context:
        _fail("context is not supported: send the conversation to /api/chat", "context")
    if fields.suffix and (fields.raw or fields.system):
        _fail("suffix cannot be combined with raw or system", "suffix")


def _thinking(fields: OllamaFields) -> dict[str, Any]:
    return {} if fields.think is None else {"enable_thinking": bool(fields.think)}


def _message(message: Mapping[str, Any], where: str, open_calls: list[str]) -> dict[str, Any]:
    """One message in OpenAI's format. open_calls: the ids of calls whose results have not appeared yet, in order."""
    if message.get("images"):
        _fail(f"{where} has images; this server serves text models only", "messages", "content_unsupported")
    made = {key: value for key, value in message.items() if key in ("role", "content") and value is not None}
    if message.get("thinking"):
        made["reasoning_content"] = message["thinking"]
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        _fail(f"{where}.tool_calls must be a list", "messages")
    if calls:
        open_calls.clear()
        made["tool_calls"] = [_call(call, f"{where}.tool_calls.{at}", open_calls) for at, call in enumerate(calls)]
        made.setdefault("content", "")
    if message.get("role") == "tool":
        made["tool_call_id"] = message.get("tool_call_id") or (open_calls.pop(0) if open_calls else "call00000")
        if isinstance(name := message.get("tool_name") or message.get("name"), str):
            made["name"] = name
    return made


def _call(call: Any, where: str, open_calls: list[str]) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        _fail(f"{where} must be {{function: {{name, arguments}}}}", "messages")
    arguments = function.get("arguments") or {}
    id = call.get("id") if isinstance(call.get("id"), str) else f"call{len(open_calls):05d}"
    open_calls.append(id)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": function["name"], "arguments": text}}


def _fail(what: str, param: str, code: str = "parameter_unsupported") -> NoReturn:
    raise bad_request(what, param, code)
