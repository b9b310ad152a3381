"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's API."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.server.api.content_blocks import Block, Blocks
from cutaway.server.api.generate import Asked, generate
from cutaway.server.api.messages_request import dialogue_of, response_format
from cutaway.server.api.sampling import check_told
from cutaway.server.api.schemas import Messages
from cutaway.server.generation.completed import Message
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.generation.respond import JsonReply
from cutaway.server.route import read_request
from cutaway.server.state import request_id, service_of


async def messages(request: Request) -> Response:
    """Answer a conversation (Anthropic's messages)."""
    return await generate(request, _asked, MessagesTeller)


def _asked(fields: Messages) -> Asked:
    check_told(fields)
    return Asked(dialogue_of(fields), form=response_format(fields))


async def count_tokens(request: Request) -> Response:
    """Count the prompt tokens of a request to /v1/messages."""
    fields, _ = await read_request(request)
    dialogue, service = dialogue_of(fields), service_of(request)
    async with service.roster.lease(fields.model, request_id(request)) as lease:
        ready = await service.in_thread(dialogue.prepare, lease.served, lease.engine, lease.engine.defaults)
    return JsonReply({"input_tokens": len(ready.prompts[0])})


class MessagesTeller:
    """Formats a run as an Anthropic message, streamed or whole."""

    def __init__(self, run: Run, fields: Messages) -> None:
        self.run = run
        self._timings = bool(fields.timings)
        self._blocks = Blocks()
        self._begun = False

    def _head(self) -> dict[str, Any]:
        visit = self.run.visit
        return {"id": f"msg_{visit.id}", "type": "message", "role": "assistant", "model": visit.model}

    # --- a stream ---------------------------------------------------------------------------------------------------
    def begin(self) -> list[dict[str, Any]]:
        """No event yet: the number of cached tokens is known only with the first piece."""
        return []

    def _started(self) -> list[dict[str, Any]]:
        if self._begun:
            return []
        self._begun = True
        usage = self._usage() | {"output_tokens": 0}
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        return [{"type": "message_start", "message": self._head() | empty}, {"type": "ping"}]

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        events = self._started()
        moves = list(self._blocks.add(piece.told))
        if piece.reason is not None:
            moves += self._blocks.close()
        for move, block, text in moves:
            if move == "start":
                events.append({"type": "content_block_start", "index": block.index, "content_block": _opened(block)})
            elif move == "stop":
                events.append({"type": "content_block_stop", "index": block.index})
            else:
                events.append({"type": "content_block_delta", "index": block.index, "delta": _delta(block, text)})
        if piece.stop is not None:
            ended = _stop(piece.stop.kind, piece.reason, self._called, piece.stop.matched)
            events.append({"type": "message_delta", "delta": ended, "usage": self._usage()} | self._asides())
        return events

    def end(self) -> list[dict[str, Any]]:
        return [{"type": "message_stop"}]

    @property
    def _called(self) -> bool:
        return any(block.kind == "call" for block in self._blocks.blocks)

    # --- a whole ----------------------------------------------------------------------------------------------------
    def whole(self, messages: list[Message]) -> dict[str, Any]:
        (message,) = messages
        assert message.stop is not None
        self._blocks = Blocks(message.told)
        content = [_whole(block) for block in self._blocks.blocks]
        ended = _stop(message.stop.kind, message.reason, self._called, message.stop.matched)
        return self._head() | {"content": content, "usage": self._usage()} | ended | self._asides()

    def _usage(self) -> dict[str, Any]:
        """The usage in Anthropic's format, which counts cached tokens separately."""
        usage = self.run.usage()
        return {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens, "output_tokens": usage.completion_tokens,
            "cache_read_input_tokens": usage.cached_tokens, "cache_creation_input_tokens": 0,
        }  # fmt: skip

    def _asides(self) -> dict[str, Any]:
        return {"system_fingerprint": self.run.visit.lease.served.fingerprint} | self.run.asides(timings=self._timings)


def _opened(block: Block) -> dict[str, Any]:
    if block.kind == "call":
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
    if block.kind == "reasoning":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "text", "text": ""}


def _delta(block: Block, text: str) -> dict[str, Any]:
    if block.kind == "call":
        return {"type": "input_json_delta", "partial_json": text}
    if block.kind == "reasoning":
        return {"type": "thinking_delta", "thinking": text}
    return {"type": "text_delta", "text": text}


def _whole(block: Block) -> dict[str, Any]:
    if block.kind == "call":
        return _opened(block) | {"input": _arguments(block.text)}
    if block.kind == "reasoning":
        return _opened(block) | {"thinking": block.text}
    return _opened(block) | {"text": block.text}


def _arguments(text: str) -> Any:
    """The arguments as an object; the text of arguments that were cut off is under `cut_off`."""
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return {"cut_off": text}


def _stop(kind: str, reason: str | None, called: bool, matched: Any) -> dict[str, Any]:
    if reason == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if kind in ("stop_string", "stop_regex"):
        return {"stop_reason": "stop_sequence", "stop_sequence": matched}
    return {"stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None}
