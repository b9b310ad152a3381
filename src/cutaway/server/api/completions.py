"""POST /v1/completions"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.engine import TokenLogprob, fitted_text
from cutaway.sampling import SamplingParams
from cutaway.server.api.chat import usage_json
from cutaway.server.api.generate import Asked, generate
from cutaway.server.api.infill import Gap
from cutaway.server.api.sampling import check_stream_options, wants_running_usage, wants_usage
from cutaway.server.api.schemas import Completion
from cutaway.server.generation.caught_warnings import heard
from cutaway.server.generation.completed import Message
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.generation.logprobs import CompletionLogprobs, prompt_entries, prompt_logprobs
from cutaway.server.generation.prompt_input import Prepared
from cutaway.server.models.served_model import Served
from cutaway.server.transport.errors import bad_request
from cutaway.text import Tokenizer

MAX_TOKENS = 16  # OpenAI's default of this route
MAX_PROMPTS = 256
Prompt = str | list[int]


async def completions(request: Request) -> Response:
    """Continue a text or token ids, one prompt or several (OpenAI's completions)."""
    return await generate(request, _asked, CompletionTeller)


def _asked(fields: Completion) -> Asked:
    check_stream_options(fields)
    prompts = _prompts(fields)
    params: dict[str, Any] = {}
    if fields.logprobs is not None:
        params = {"logprobs": fields.logprobs} | ({"prompt_logprobs": fields.logprobs} if fields.echo else {})
    unsaid = fields.max_tokens is None and fields.n_predict is None
    texts = Texts(
        prompts, add_special=fields.add_special_tokens is not False, slides=fields.truncation == "slide"
    )
    return Asked(
        _gap(fields, prompts) if fields.suffix else texts, answers=len(prompts) * (fields.n or 1), params=params,
        max_tokens=MAX_TOKENS if unsaid else None,
    )  # fmt: skip


def _gap(fields: Completion, prompts: Sequence[Prompt]) -> Gap:
    """The gap between the prompt and `suffix`. Raises ApiError."""
    (prompt, *more) = prompts
    if more or not isinstance(prompt, str) or fields.echo or fields.truncation == "slide":
        raise bad_request(
            "suffix needs a single text as prompt, without echo and without truncation 'slide'", "suffix",
            "parameter_unsupported",
        )
    return Gap(prompt, fields.suffix or "")


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts or token ids. add_special: add the model's tokens for the start of a text. parse_special: read control
    tokens in texts. slides: drop the oldest tokens when the context is full."""

    prompts: Sequence[Prompt]
    add_special: bool
    parse_special: bool = False
    slides: bool = False

    def prepare(self, _served: Served, engine: Engine, params: SamplingParams) -> Prepared:
        """The token ids of each prompt. Raises ApiError."""
        warnings: list[str] = []
        tokens = heard(warnings, self._encoded, engine.tokenizer)
        if not self.slides:
            return Prepared(tokens, params, warnings=tuple(warnings))
        fits = [fitted_text(each, engine.context, params.max_tokens) for each in tokens]
        warnings += [warning for fit in fits for warning in fit.warnings]
        shorten = [fit.shorten for fit in fits]
        return Prepared([fit.tokens for fit in fits], params, warnings=tuple(warnings), shorten=shorten)

    def _encoded(self, tokenizer: Tokenizer) -> list[list[int]]:
        """Raises ApiError for a prompt without tokens."""
        options = {"add_special": self.add_special, "parse_special": self.parse_special}
        found = [p if isinstance(p, list) else tokenizer.encode(p, **options) for p in self.prompts]
        for number, tokens in enumerate(found):
            if not tokens:
                which = f"prompt {number} has" if len(found) > 1 else "the prompt has"
                raise bad_request(
                    f"{which} no tokens, and this model adds none of its own; send a text", "prompt",
                    "prompt_empty",
                )  # fmt: skip
        return found


def _prompts(fields: Completion) -> list[Prompt]:
    """The prompts of the request. Raises ApiError if there are none, or for options that the route does not support."""
    if fields.best_of is not None and fields.best_of != (fields.n or 1):
        raise bad_request("best_of is not supported here; it must equal n", "best_of", "parameter_unsupported")
    if fields.truncation == "auto":
        raise bad_request(
            "truncation 'auto' drops turns of a chat; a prompt has no turns", "truncation", "parameter_unsupported"
        )
    given = fields.prompt
    prompts: list[Prompt]
    if isinstance(given, str):
        prompts = [given]
    elif given and isinstance(given[0], int):
        prompts = [[token for token in given if isinstance(token, int)]]
    else:
        prompts = [prompt for prompt in given if not isinstance(prompt, int)]
    if not prompts:
        raise bad_request("prompt is empty; give a text or token ids", "prompt", "prompt_empty")
    if len(prompts) > MAX_PROMPTS:
        raise bad_request(f"prompt has {len(prompts)} entries; {MAX_PROMPTS} are allowed", "prompt", "limit_exceeded")
    return prompts


class CompletionTeller:
    """Formats a run as a completion, streamed or whole."""

    def __init__(self, run: Run, fields: Completion) -> None:
        self.run = run
        self._prompts = _prompts(fields)
        self._echo = bool(fields.echo)
        self._usage = wants_usage(fields)
        self._running_usage = wants_running_usage(fields)
        self._timings = bool(fields.timings)
        self._ids = bool(fields.return_token_ids)
        self._created = int(time())
        self._waiting: dict[int, list[Piece]] = {}  # pieces that arrived before the prompt's log-probabilities
        self._writers: dict[int, CompletionLogprobs] = {}

    @property
    def _tokenizer(self) -> Tokenizer:
        return self.run.visit.lease.engine.tokenizer

    def _head(self) -> dict[str, Any]:
        visit = self.run.visit
        return {
            "id": f"cmpl-{visit.id}", "object": "text_completion", "created": self._created, "model": visit.model,
            "system_fingerprint": visit.lease.served.fingerprint,
        }  # fmt: skip

    def _prompt_text(self, choice: int) -> str:
        """The prompt as a text; token ids are decoded."""
        prompt = self._prompts[choice // self.run.params.n]
        return prompt if isinstance(prompt, str) else self._tokenizer.decode(prompt, skip_special=True)

    def _writer(self, choice: int) -> CompletionLogprobs:
        if choice not in self._writers:
            offset = 0 if self._prompt_told or not self._echo else len(self._prompt_text(choice))
            after = () if self._prompt_told else self._prompt_ids(choice)
            self._writers[choice] = CompletionLogprobs(self._tokenizer, offset, after)
        return self._writers[choice]

    @property
    def _prompt_told(self) -> bool:
        """Whether the log-probabilities begin with the prompt's."""
        return self._echo and self.run.params.logprobs is not None

    # --- a stream ---------------------------------------------------------------------------------------------------
    def begin(self) -> list[dict[str, Any]]:
        """With echo each choice starts with its prompt, unless the prompt's log-probabilities are still to come."""
        if not self._echo or self._prompt_told:
            return []
        count = len(self._prompts) * self.run.params.n
        return [self._chunk(choice, self._prompt_text(choice)) for choice in range(count)]

    def _chunk(self, choice: int, text: str, logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
        told = {"index": choice, "text": text, "logprobs": logprobs, "finish_reason": None}
        return self._head() | {"choices": [told]} | ({"usage": usage_json(self.run)} if self._running_usage else {})

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The chunks of a piece."""
        if not self._prompt_told:
            return self._told(piece)
        prompt = piece.choice // self.run.params.n
        self._waiting.setdefault(prompt, []).append(piece)
        result = self.run.results[prompt]
        if result is None:
            return []
        first = prompt * self.run.params.n
        chunks = []
        entries = prompt_entries(result.prompt_token_ids, result.prompt_logprobs or ())
        for choice in range(first, first + self.run.params.n):
            chunks.append(self._chunk(choice, self._prompt_text(choice), self._writer(choice).lists(entries)))
        return chunks + [chunk for waiting in self._waiting.pop(prompt) for chunk in self._told(waiting)]

    def _told(self, piece: Piece) -> list[dict[str, Any]]:
        chunks = []
        if piece.told.content or piece.logprob is not None or (self._ids and piece.token is not None):
            logprobs = None
            if piece.logprob is not None:
                logprobs = self._writer(piece.choice).lists([(piece.logprob.token, piece.logprob)])
            chunks.append(self._chunk(piece.choice, piece.told.content, logprobs))
            if self._ids and piece.token is not None:
                chunks[0]["choices"][0]["token_ids"] = [piece.token]
        if piece.reason is not None:
            last = self._chunk(piece.choice, "")
            last["choices"][0] |= {
                "finish_reason": piece.reason,
                "stop_reason": piece.stop.matched if piece.stop else None,
            }
            if self._ids:
                last["choices"][0]["prompt_token_ids"] = self._prompt_ids(piece.choice)
            if not self._echo and piece.result is not None and piece.result.prompt_logprobs is not None:
                told = prompt_logprobs(piece.result.prompt_logprobs, self._tokenizer)
                last["choices"][0]["prompt_logprobs"] = told
            if None not in self.run.results and piece.result is not None:
                last |= self.run.asides(timings=self._timings)
            chunks.append(last)
        return chunks

    def end(self) -> list[dict[str, Any]]:
        if not self._usage:
            return []
        return [self._head() | {"choices": [], "usage": usage_json(self.run)}]

    # --- a whole ----------------------------------------------------------------------------------------------------
    def whole(self, messages: list[Message]) -> dict[str, Any]:
        choices = [self._choice(index, message) for index, message in enumerate(messages)]
        asides = self.run.asides(timings=self._timings)
        return self._head() | {"choices": choices, "usage": usage_json(self.run)} | asides

    def _choice(self, index: int, message: Message) -> dict[str, Any]:
        logprobs = None
        result = self.run.results[index // self.run.params.n]
        if self.run.params.logprobs is not None:
            pairs: list[tuple[int, TokenLogprob | None]] = [(e.token, e) for e in message.logprobs]
            if self._echo and result is not None:
                pairs = [*prompt_entries(result.prompt_token_ids, result.prompt_logprobs or ()), *pairs]
            logprobs = self._writer(index).lists(pairs)
        told = {
            "index": index, "text": (self._prompt_text(index) if self._echo else "") + message.content,
            "logprobs": logprobs, "finish_reason": message.reason,
            "stop_reason": message.stop.matched if message.stop is not None else None,
        }  # fmt: skip
        if not self._echo and result is not None and result.prompt_logprobs is not None:
            told["prompt_logprobs"] = prompt_logprobs(result.prompt_logprobs, self._tokenizer)
        if self._ids:
            told |= {"token_ids": message.tokens, "prompt_token_ids": self._prompt_ids(index)}
        return told

    def _prompt_ids(self, choice: int) -> list[int]:
        return list(self.run.prompts[choice // self.run.params.n])
