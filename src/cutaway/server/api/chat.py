"""POST /v1/chat/completions"""

from __future__ import annotations

from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.server.api.generate import Asked, generate
from cutaway.server.api.sampling import chat_logprobs, check_stream_options, wants_running_usage, wants_usage
from cutaway.server.api.schemas import Chat
from cutaway.server.api.validation import agreed
from cutaway.server.generation.chat_request import Dialogue, chosen_tools, template_variables
from cutaway.server.generation.completed import Message
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.generation.logprobs import chat_logprob, prompt_logprobs
from cutaway.server.generation.output_parser import Told
from cutaway.text.tools.events import Arguments, CallStarted


async def chat(request: Request) -> Response:
    """Answer a conversation (OpenAI's chat completions)."""
    return await generate(request, _asked, ChatTeller)


def _asked(fields: Chat) -> Asked:
    check_stream_options(fields)
    wanted = chat_logprobs(fields)
    params: dict[str, Any] = {} if wanted is None else {"logprobs": wanted}
    return Asked(_dialogue(fields), answers=fields.n or 1, params=params)


def _dialogue(fields: Chat) -> Dialogue:
    tools, choice, name = chosen_tools(fields.tools, fields.tool_choice)
    return Dialogue(
        messages=fields.messages,
        tools=tools,
        tool_choice=choice,
        tool_name=name,
        parallel=fields.parallel_tool_calls is not False,
        documents=fields.documents,
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=bool(fields.continue_final_message),
        variables=template_variables(fields.chat_template_kwargs),
        truncation=fields.truncation or "error",
        reasoning_budget=agreed(fields, "reasoning_budget", "thinking_token_budget"),
    )


class ChatTeller:
    """Formats a run as a chat completion, streamed or whole."""

    def __init__(self, run: Run, fields: Chat) -> None:
        self.run = run
        self._usage = wants_usage(fields)
        self._running_usage = wants_running_usage(fields)
        self._timings = bool(fields.timings)
        self._ids = bool(fields.return_token_ids)
        self._created = int(time())

    def _head(self, kind: str) -> dict[str, Any]:
        visit = self.run.visit
        return {
            "id": f"chatcmpl-{visit.id}", "object": kind, "created": self._created, "model": visit.model,
            "system_fingerprint": visit.lease.served.fingerprint,
        }  # fmt: skip

    def _chunk(self, choice: int, delta: dict[str, Any], piece: Piece | None = None) -> dict[str, Any]:
        told: dict[str, Any] = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": None}
        if piece is not None and piece.logprob is not None:
            told["logprobs"] = {
                "content": [chat_logprob(piece.logprob, self.run.visit.lease.engine.tokenizer)],
                "refusal": None,
            }
        if piece is not None and self._ids and piece.token is not None:
            told["token_ids"] = [piece.token]
        usage = {"usage": usage_json(self.run)} if self._running_usage else {}
        return self._head("chat.completion.chunk") | {"choices": [told]} | usage

    def begin(self) -> list[dict[str, Any]]:
        """The first chunk of each choice, which has the role."""
        return [self._chunk(choice, {"role": "assistant", "content": ""}) for choice in range(self.run.params.n)]

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The chunks of a piece. A token without text has a chunk only if its log-probability or id is requested."""
        deltas = chat_deltas(piece.told)
        if not deltas and (piece.logprob is not None or (self._ids and piece.token is not None)):
            deltas = [{}]
        chunks = [self._chunk(piece.choice, delta, piece if not at else None) for at, delta in enumerate(deltas)]
        if piece.reason is not None:
            last = self._chunk(piece.choice, {})
            last["choices"][0]["finish_reason"] = piece.reason
            last["choices"][0]["stop_reason"] = piece.stop.matched if piece.stop is not None else None
            if piece.result is not None:
                last |= self._asides()
            chunks.append(last)
        return chunks

    def end(self) -> list[dict[str, Any]]:
        """The chunk with the usage, if it is requested."""
        if not self._usage:
            return []
        return [self._head("chat.completion.chunk") | {"choices": [], "usage": usage_json(self.run)}]

    def whole(self, messages: list[Message]) -> dict[str, Any]:
        """The reply without streaming."""
        choices = [self._choice(index, message) for index, message in enumerate(messages)]
        usage = usage_json(self.run)
        return self._head("chat.completion") | {"choices": choices, "usage": usage} | self._asides()

    def _choice(self, index: int, message: Message) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "assistant", "content": message.content, "refusal": None}
        if message.reasoning:
            said["reasoning_content"] = message.reasoning
        if message.calls:
            said["content"] = message.content or None
            said["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in message.calls
            ]
        tokenizer = self.run.visit.lease.engine.tokenizer
        logprobs = None
        if self.run.params.logprobs is not None:
            logprobs = {"content": [chat_logprob(entry, tokenizer) for entry in message.logprobs], "refusal": None}
        told = {
            "index": index, "message": said, "logprobs": logprobs, "finish_reason": message.reason,
            "stop_reason": message.stop.matched if message.stop is not None else None,
        }  # fmt: skip
        return told | ({"token_ids": message.tokens} if self._ids else {})

    def _asides(self) -> dict[str, Any]:
        """Fields that appear once beside the choices, including those of the prompt."""
        told = self.run.asides(timings=self._timings)
        result = self.run.results[0]
        assert result is not None
        if result.prompt_logprobs is not None:
            tokenizer = self.run.visit.lease.engine.tokenizer
            told["prompt_logprobs"] = prompt_logprobs(result.prompt_logprobs, tokenizer)
        if self._ids:
            told["prompt_token_ids"] = list(result.prompt_token_ids)
        return told


def chat_deltas(told: Told) -> list[dict[str, Any]]:
    """A piece as deltas: reasoning, content, then tool calls. The first delta of a call has its id, type and name."""
    deltas: list[dict[str, Any]] = []
    if told.reasoning:
        deltas.append({"reasoning_content": told.reasoning})
    if told.content:
        deltas.append({"content": told.content})
    for event in told.calls:
        if isinstance(event, CallStarted):
            call = {
                "index": event.index,
                "id": event.id,
                "type": "function",
                "function": {"name": event.name, "arguments": ""},
            }
            deltas.append({"tool_calls": [call]})
        elif isinstance(event, Arguments):
            deltas.append({"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]})
    return deltas


def usage_json(run: Run) -> dict[str, Any]:
    """The usage in OpenAI's format."""
    usage = run.usage()
    return {
        "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens, "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": run.reasoning_tokens},
    }  # fmt: skip
