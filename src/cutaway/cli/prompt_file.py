"""The prompt that a command works on: a text, or a JSON file of messages or of a request's body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.cli.input import text_argument, text_file
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.xray.prompt_account import PromptInput
    from cutaway.xray.record import RequestRecord

_TEMPLATE = ("tools", "documents", "add_generation_prompt", "continue_final_message")


def asked_of(
    text: str | None, file: Path | None, *, system: str | None, raw: bool, encoding: str | None
) -> PromptInput:
    """A text is one message of the user, or, when `raw`, completed as it is. A name that ends with .json is a file.

    Raises ParameterError.
    """
    from cutaway.xray.prompt_account import PromptInput

    if (text is None) == (file is None):
        raise ParameterError("give a text or a file of messages, one of them", hint='"-" reads a text from input')
    if text is not None and text.endswith(".json") and Path(text).is_file():
        file = Path(text)
    if file is not None:
        if system is not None or raw:
            raise ParameterError("--system and --raw are for a text; a file of messages says it itself")
        return _of_json(text_file(file, encoding), str(file))
    assert text is not None
    given = text_argument(text, encoding)
    if raw:
        return PromptInput(text=given)
    head = [{"role": "system", "content": system}] if system is not None else []
    return PromptInput(messages=[*head, {"role": "user", "content": given}])


def _of_json(text: str, name: str) -> PromptInput:
    """A list of messages; the body of a request: messages, with tools and the rest, or prompt, a text or ids; or the
    record of a served request."""
    from cutaway.xray.prompt_account import PromptInput
    from cutaway.xray.record_json import record_from

    try:
        body: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{name} is not valid JSON: {error}") from error
    if isinstance(body, list):
        return PromptInput(messages=body)
    if not isinstance(body, Mapping):
        raise ParameterError(f"{name} must hold a list of messages or a request's body")
    if "messages" in body:
        variables = body.get("chat_template_kwargs", {})
        if not isinstance(variables, Mapping | None):
            raise ParameterError(f"{name}: chat_template_kwargs must be an object")
        rest = {key: body[key] for key in _TEMPLATE if body.get(key) is not None}
        return PromptInput(messages=body["messages"], variables=dict(variables or {}), **rest)
    if body.get("record") == "request":
        return _of_record(record_from(body), name)
    given = body.get("prompt")
    if isinstance(given, str):
        return PromptInput(text=given)
    if isinstance(given, list) and given and all(type(token) is int for token in given):
        return PromptInput(ids=given)
    raise ParameterError(f"{name} has neither messages nor a prompt (a text, or token ids)")


def recorded(name: str) -> PromptInput:
    """The prompt of a request. name: a record file, an x-request-id, or last. Raises CutawayError."""
    from cutaway.xray.find_record import find_record

    return _of_record(find_record(name), name)


def _of_record(record: RequestRecord, name: str) -> PromptInput:
    from cutaway.xray.prompt_account import PromptInput

    if record.prompt_ids is None:
        raise ParameterError(f"{name} is a record of figures only: it does not hold the prompt")
    return PromptInput(ids=record.prompt_ids)
