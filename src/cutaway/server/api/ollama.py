"""POST /api/chat and /api/generate: Ollama's protocol, one line of JSON per piece."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import time_ns
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.sampling import SamplingParams
from cutaway.server.api.completions import Texts
from cutaway.server.api.generate import Asked, generate
from cutaway.server.api.infill import Gap
from cutaway.server.api.ollama_request import (
    OllamaChat,
    OllamaFields,
    OllamaGenerate,
    chat_dialogue,
    check_generate,
    chosen,
    form_of,
    model_name,
    prompt_dialogue,
)
from cutaway.server.generation.completed import Call, Message
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.generation.prompt_input import Input, Prepared
from cutaway.server.generation.respond import JsonReply
from cutaway.server.models.served_model import Served
from cutaway.server.route import read_request
from cutaway.server.state import request_id, service_of
from cutaway.text.tools.events import CallEnded


async def chat(request: Request) -> Response:
    """Answer a conversation (Ollama's chat). Without messages, load the model."""
    fields: OllamaChat
    fields, warnings = await read_request(request)
    if not fields.messages:
        return await _loaded(request, fields, {"message": {"role": "assistant", "content": ""}})
    return await generate(request, _chat_asked, ChatTeller, (fields, warnings))


async def complete(request: Request) -> Response:
    """Answer a prompt through the model's template, or continue it if `raw`. Without a prompt, load the model."""
    fields: OllamaGenerate
    fields, warnings = await read_request(request)
    if not fields.prompt and not fields.suffix:
        return await _loaded(request, fields, {"response": ""})
    return await generate(request, _complete_asked, GenerateTeller, (fields, warnings))


async def _loaded(request: Request, fields: OllamaFields, empty: dict[str, Any]) -> Response:
    async with service_of(request).roster.lease(model_name(fields.model), request_id(request)) as lease:
        told = {"model": fields.model or lease.served.name, "created_at": now(), **empty}
    return JsonReply(told | {"done": True, "done_reason": "load"})


def _chat_asked(fields: OllamaChat) -> Asked:
    options, warnings = chosen(fields)
    return Asked(chat_dialogue(fields), form=form_of(fields), chosen=options, warnings=warnings)


def _complete_asked(fields: OllamaGenerate) -> Asked:
    check_generate(fields)
    options, warnings = chosen(fields)
    source: Input
    if fields.suffix:
        source = Gap(fields.prompt or "", fields.suffix)
    elif fields.raw:
        source = Texts([fields.prompt or ""], add_special=True, parse_special=True)
    else:
        source = Turn(fields)
    return Asked(source, form=form_of(fields), chosen=options, warnings=warnings)


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt as a user's turn. A model without a template continues it as a text."""

    fields: OllamaGenerate

    def prepare(self, served: Served, engine: Engine, params: SamplingParams) -> Prepared:
        """The prompt's token ids. Raises CutawayError, ApiError."""
        if engine.template is not None or self.fields.system:
            return prompt_dialogue(self.fields).prepare(served, engine, params)
        return Texts([self.fields.prompt or ""], add_special=True).prepare(served, engine, params)


class _Teller:
    """Formats a run in Ollama's format: the parts that both routes share."""

    def __init__(self, run: Run, fields: OllamaFields) -> None:
        self.run = run
        self._model = fields.model or run.visit.model
        self._message = Message()

    def part(self, content: str, thinking: str, calls: Sequence[Call]) -> dict[str, Any]:
        """A piece of the answer in the route's own field."""
        raise NotImplementedError

    def begin(self) -> list[dict[str, Any]]:
        return []

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The lines of a piece. A call is sent when it is complete, because its arguments are an object."""
        self._message.add(piece)
        whole = [self._message.calls[event.index] for event in piece.told.calls if isinstance(event, CallEnded)]
        lines = []
        if piece.told.content or piece.told.reasoning or whole:
            told = self.part(piece.told.content, piece.told.reasoning, whole)
            lines.append(self._head() | told | {"done": False})
        if piece.reason is not None:
            lines.append(self._head() | self.part("", "", ()) | self._end(piece.reason))
        return lines

    def end(self) -> list[dict[str, Any]]:
        return []

    def whole(self, messages: list[Message]) -> dict[str, Any]:
        (message,) = messages
        return self._head() | self.part(message.content, message.reasoning, message.calls) | self._end(message.reason)

    def _head(self) -> dict[str, Any]:
        return {"model": self._model, "created_at": now()}

    def _end(self, reason: str) -> dict[str, Any]:
        """The figures of the last line. Durations are in nanoseconds; load_duration ends when the engine has the
        request, so it includes the loading of the model."""
        done, visit = self.run.results[0], self.run.visit
        assert done is not None
        told = {
            "done": True, "done_reason": "length" if reason == "length" else "stop",
            "total_duration": time_ns() - visit.began, "load_duration": self.run.report.submitted - visit.began,
            "prompt_eval_count": done.usage.prompt_tokens, "prompt_eval_duration": int(done.timings.prefill * 1e9),
            "eval_count": done.usage.completion_tokens, "eval_duration": int(done.timings.decode * 1e9),
        }  # fmt: skip
        return told | self.run.asides(timings=False)


class ChatTeller(_Teller):
    """Formats a run as /api/chat does."""

    def part(self, content: str, thinking: str, calls: Sequence[Call]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "function": {"index": at, "name": call.name, "arguments": _arguments(call)}}
                for at, call in enumerate(calls, len(self._message.calls) - len(calls) if self._message.calls else 0)
            ]
        return {"message": message}


class GenerateTeller(_Teller):
    """Formats a run as /api/generate does."""

    def part(self, content: str, thinking: str, calls: Sequence[Call]) -> dict[str, Any]:
        return {"response": content} | ({"thinking": thinking} if thinking else {})


def _arguments(call: Call) -> Any:
    """The arguments as an object; the text of arguments that were cut off is under `cut_off`."""
    try:
        return json.loads(call.arguments) if call.arguments else {}
    except ValueError:
        return {"cut_off": call.arguments}


def now() -> str:
    """The current time in Ollama's format."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
