"""POST /v1/responses: the stateless part of OpenAI's responses API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.engine import TokenLogprob
from cutaway.server.api.content_blocks import Block, Blocks, Move
from cutaway.server.api.generate import Asked, generate
from cutaway.server.api.responses_request import LOGPROBS, dialogue_of, response_format
from cutaway.server.api.sampling import check_told
from cutaway.server.api.schemas import Responses
from cutaway.server.generation.completed import Message
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.generation.logprobs import TextLogprobs, chat_logprob
from cutaway.server.generation.respond import JsonReply
from cutaway.server.route import read_request
from cutaway.server.state import request_id, service_of


async def responses(request: Request) -> Response:
    """Answer a list of input items (OpenAI's responses)."""
    return await generate(request, _asked, ResponsesTeller)


def _asked(fields: Responses) -> Asked:
    check_told(fields)
    default = 0 if LOGPROBS in (fields.include or ()) else None
    params = {"logprobs": default if fields.top_logprobs is None else fields.top_logprobs}
    return Asked(dialogue_of(fields), form=response_format(fields), params=params)


async def input_tokens(request: Request) -> Response:
    """Count the prompt tokens of a request to /v1/responses."""
    fields, _ = await read_request(request)
    dialogue, service = dialogue_of(fields), service_of(request)
    async with service.roster.lease(fields.model, request_id(request)) as lease:
        ready = await service.in_thread(dialogue.prepare, lease.served, lease.engine, lease.engine.defaults)
    return JsonReply({"object": "response.input_tokens", "input_tokens": len(ready.prompts[0])})


class ResponsesTeller:
    """Formats a run as a response, streamed or whole."""

    def __init__(self, run: Run, fields: Responses) -> None:
        self.run = run
        self._fields = fields
        self._blocks = Blocks()
        self._created = int(time())
        self._number = 0
        self._texts = TextLogprobs()
        self._logprobs: dict[int, list[dict[str, Any]]] = {}  # by the index of a block of text
        self._cut: Block | None = None  # the item that max_output_tokens cut off

    # --- a stream ---------------------------------------------------------------------------------------------------
    def _event(self, kind: str, **told: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": f"response.{kind}", "sequence_number": self._number - 1, **told}

    def begin(self) -> list[dict[str, Any]]:
        started = self._response("in_progress", None)
        return [self._event("created", response=started), self._event("in_progress", response=started)]

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        shown = self._texts.add(piece.told, piece.logprob)
        moves = list(self._blocks.add(piece.told))
        if piece.reason is not None:
            self._cut = self._blocks.open if piece.reason == "length" else None
            moves += self._blocks.close()
        events = [event for move in moves for event in self._moved(move, shown)]
        if piece.reason is not None:
            status = "incomplete" if piece.reason == "length" else "completed"
            events.append(self._event(status, response=self._response(status, piece.reason)))
        return events

    def _shown(self, block: Block, shown: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        tokenizer = self.run.visit.lease.engine.tokenizer
        told = [chat_logprob(entry, tokenizer) for entry in shown]
        self._logprobs.setdefault(block.index, []).extend(told)
        return told

    def _moved(self, moved: tuple[Move, Block, str], shown: Sequence[TokenLogprob]) -> Iterator[dict[str, Any]]:
        move, block, text = moved
        place: dict[str, Any] = {"output_index": block.index, "item_id": self._id(block)}
        part = place | {"content_index": 0}
        name = {"text": "output_text", "reasoning": "reasoning_text", "call": "function_call_arguments"}[block.kind]
        if move == "delta":
            more: dict[str, Any] = {} if block.kind == "call" else {"content_index": 0}
            more |= {"logprobs": self._shown(block, shown)} if block.kind == "text" else {}
            yield self._event(f"{name}.delta", delta=text, **place, **more)
        elif move == "start":
            yield self._event("output_item.added", output_index=block.index, item=self._item(block, "in_progress"))
            if block.kind != "call":
                yield self._event("content_part.added", part=self._part(block, ""), **part)
        else:
            if block.kind == "call":
                yield self._event(f"{name}.done", arguments=block.text, name=block.name, **place)
            else:
                logprobs = {"logprobs": self._logprobs.get(block.index, [])} if block.kind == "text" else {}
                yield self._event(f"{name}.done", text=block.text, **part, **logprobs)
                yield self._event("content_part.done", part=self._part(block, block.text), **part)
            yield self._event("output_item.done", output_index=block.index, item=self._item(block, "completed"))

    def end(self) -> list[dict[str, Any]]:
        return []

    # --- a whole ----------------------------------------------------------------------------------------------------
    def whole(self, messages: list[Message]) -> dict[str, Any]:
        (message,) = messages
        for told, shown in zip(message.told, message.text_logprobs, strict=True):
            for move, block, _ in self._blocks.add(told):
                if move == "delta" and block.kind == "text":
                    self._shown(block, shown)
        self._cut = self._blocks.open if message.reason == "length" else None
        return self._response("incomplete" if message.reason == "length" else "completed", message.reason)

    def _id(self, block: Block) -> str:
        prefix = {"text": "msg", "reasoning": "rs", "call": "fc"}[block.kind]
        return f"{prefix}_{self.run.visit.id}_{block.index}"

    def _item(self, block: Block, status: str) -> dict[str, Any]:
        done = status != "in_progress"
        status = "incomplete" if done and block is self._cut else status
        if block.kind == "call":
            arguments = block.text if done else ""
            return {
                "type": "function_call", "id": self._id(block), "call_id": block.id, "name": block.name,
                "arguments": arguments, "status": status,
            }  # fmt: skip
        content = [self._part(block, block.text)] if done else []
        if block.kind == "reasoning":
            return {"type": "reasoning", "id": self._id(block), "summary": [], "content": content, "status": status}
        return {"type": "message", "id": self._id(block), "role": "assistant", "content": content, "status": status}

    def _part(self, block: Block, text: str) -> dict[str, Any]:
        if block.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        logprobs = self._logprobs.get(block.index, []) if text else []
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def _response(self, status: str, reason: str | None) -> dict[str, Any]:
        fields, params, visit = self._fields, self.run.params, self.run.visit
        done = status != "in_progress"
        told: dict[str, Any] = {
            "id": f"resp_{visit.id}", "object": "response", "created_at": self._created, "status": status,
            "model": visit.model, "error": None, "instructions": fields.instructions,
            "incomplete_details": {"reason": "max_output_tokens"} if reason == "length" else None,
            "output": [self._item(block, "completed") for block in self._blocks.blocks] if done else [],
            "max_output_tokens": fields.max_output_tokens,
            "parallel_tool_calls": fields.parallel_tool_calls is not False,
            "previous_response_id": None, "reasoning": {"effort": None, "summary": None}, "store": False,
            "temperature": params.temperature, "top_p": params.top_p,
            "text": fields.text or {"format": {"type": "text"}},
            "tool_choice": fields.tool_choice or "auto", "tools": fields.tools or [], "metadata": fields.metadata or {},
            "truncation": fields.truncation or "disabled", "user": fields.user,
            "system_fingerprint": visit.lease.served.fingerprint, "usage": self._usage() if done else None,
        }  # fmt: skip
        return told | (self.run.asides(timings=bool(fields.timings)) if done else {})

    def _usage(self) -> dict[str, Any]:
        usage = self.run.usage()
        return {
            "input_tokens": usage.prompt_tokens, "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": self.run.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        }  # fmt: skip
