"""One request while it is answered: its model and its place, its prompts at the engine, the pieces of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic, time_ns
from typing import Any

from starlette.requests import Request

from cutaway.engine import Collector, Delta, Finished, Result, Stream, TokenLogprob, Usage
from cutaway.errors import CutawayError, EngineError
from cutaway.sampling import SamplingParams, StopReason
from cutaway.sampling.grammar import compile_constraint
from cutaway.server.mailbox import Mailbox
from cutaway.server.problems import INPUTS, ApiError, as_api_error
from cutaway.server.reader import Reader, Told
from cutaway.server.roster import Lease
from cutaway.server.service import Service, caller, request_id
from cutaway.server.telemetry import Answered, Story

_REASONS = {"length": "length", "context": "length", "time": "length"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of one answer. choice: prompt * n + choice of the prompt. token: None where the answer ends.

    told: what the text says, told apart. stop, reason: at the end. result: with the last of its prompt's ends.
    """

    choice: int
    told: Told
    token: int | None = None
    logprob: TokenLogprob | None = None
    stop: StopReason | None = None
    reason: str | None = None
    result: Result | None = None


class Visit:
    """A caller's place and its hold on a model; `close` gives both back. Nothing else may.

    names: what the request calls our parameters, where it calls them otherwise.
    """

    def __init__(self, service: Service, request: Request, lease: Lease, stack: ExitStack) -> None:
        self.service = service
        self.began: int = request.scope["cutaway.began"]
        self.headers = request.headers
        self.id = request_id(request)
        self.path = request.url.path
        self.caller = caller(request)
        self.lease = lease
        self.warnings: list[str] = []
        self.names = dict(INPUTS.get(self.path, {}))
        self._stack = stack

    @classmethod
    async def enter(cls, request: Request, service: Service, model: str | None, answers: int) -> Visit:
        """Raises ApiError: 404, 429, 503."""
        with ExitStack() as stack:
            lease = await service.roster.take(model, request_id(request))
            stack.callback(service.roster.give, lease)
            at_once = lease.served.config.max_requests or 1
            stack.enter_context(service.admission.enter(caller(request), lease.served.name, answers, at_once))
            return cls(service, request, lease, stack.pop_all())

    @property
    def model(self) -> str:
        return self.lease.served.name

    def close(self) -> None:
        self._stack.close()


class Run:
    """The answers to a request's prompts. `pieces` is read once; `close` ends everything, whatever state it is in."""

    def __init__(
        self,
        visit: Visit,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        *,
        reader: Callable[[], Reader] = Reader,
        key: Hashable = None,
    ) -> None:
        self.visit = visit
        self.prompts = prompts
        self.params = params
        self.results: list[Result | None] = [None] * len(prompts)
        self._key = key
        self._readers = [reader() for _ in range(len(prompts) * params.n)]
        self._mailbox = Mailbox(asyncio.get_running_loop(), visit.service.config.server.max_events)
        self._streams: list[Stream] = []
        self._last: dict[int, float] = {}
        self._tokens = 0
        self.reasoning_tokens = 0
        self._closed = False
        self._submitted = 0  # nanoseconds since 1970
        self._answered: list[Answered] = []
        self._logs_tokens = visit.service.log.tells_tokens(visit.id)

    @property
    def warnings(self) -> list[str]:
        """All so far, each once: the request's own, the engine's, the readers'."""
        said = [*self.visit.warnings]
        said += [w for result in self.results if result is not None for w in result.warnings]
        said += [w for reader in self._readers for w in reader.warnings]
        return list(dict.fromkeys(said))

    async def start(self) -> None:
        """Hand everything to the engine. Raises CutawayError for what it refuses; then nothing runs."""
        service, engine = self.visit.service, self.visit.lease.engine
        if self.params.constraint is not None:
            compiled = await service.in_thread(compile_constraint, *self.params.constraint, engine.tokenizer)
            service.metrics.compiled(self.visit.model, compiled.seconds)
            self.visit.warnings += compiled.warnings
        self._submitted = time_ns()
        await service.in_thread(self._submit)

    def _submit(self) -> None:
        engine = self.visit.lease.engine
        try:
            for number, tokens in enumerate(self.prompts):
                slot = self._mailbox.slot(number)
                self._streams.append(engine.submit(tokens, self.params, sink=slot, key=self._key))
                if self._closed:  # meanwhile the client left
                    self._cancel()
        except BaseException:
            self._cancel()
            raise

    def _cancel(self) -> None:
        for stream in self._streams:
            stream.cancel()

    async def pieces(self) -> AsyncIterator[Piece]:
        """As they come. Raises the error of the first answer that fails."""
        collectors = [Collector(tokens, self.params.n) for tokens in self.prompts]
        left = len(self._readers)
        async for prompt, event in self._mailbox.take():
            if isinstance(event, Finished) and event.error is not None:
                raise event.error
            if isinstance(event, Finished) and event.stop.kind == "cancelled":
                raise ApiError(503, "the server is shutting down", code="shutting_down", retry_after=5)
            delta = collectors[prompt].add(event)
            piece = self._piece(prompt, delta)
            if isinstance(event, Finished):
                left -= 1
                self._ended(piece, event)
            yield piece
            if not left:
                return

    def _piece(self, prompt: int, delta: Delta) -> Piece:
        choice = prompt * self.params.n + delta.choice
        reader = self._readers[choice]
        told = reader.push(delta.text)
        if delta.stop is None:
            self._count(choice, delta, bool(told.reasoning))
            return Piece(choice, told, delta.token, delta.logprob)
        told = told + reader.finish()
        reason = _REASONS.get(delta.stop.kind, "stop")
        if reason == "stop" and reader.called:
            reason = reader.reason
        if delta.result is not None:
            self.results[prompt] = delta.result
        return Piece(choice, told, stop=delta.stop, reason=reason, result=delta.result)

    def _count(self, choice: int, delta: Delta, reasons: bool) -> None:
        now, before = monotonic(), self._last.get(choice)
        self._last[choice] = now
        self._tokens += 1
        self.reasoning_tokens += reasons
        self.visit.service.metrics.token(self.visit.model, None if before is None else now - before)
        if self._logs_tokens and delta.token is not None:
            self.visit.service.log.token(self.visit.id, choice, delta.token, delta.text)

    def _ended(self, piece: Piece, event: Finished) -> None:
        metrics = self.visit.service.metrics
        self._answered.append(Answered(event.timings, piece.reason or ""))
        metrics.answered(self.visit.model, event.stop.kind, piece.reason or "", event.usage, event.timings)
        if piece.result is not None:
            usage = piece.result.usage
            metrics.prompt(self.visit.model, usage.prompt_tokens, usage.cached_tokens, piece.result.broke)

    def usage(self) -> Usage:
        """Of all prompts together."""
        done = [result.usage for result in self.results if result is not None]
        return Usage(
            sum(u.prompt_tokens for u in done),
            sum(u.completion_tokens for u in done),
            sum(u.cached_tokens for u in done),
        )

    def asides(self, *, timings: bool) -> dict[str, Any]:
        """What every API tells once, beside the answers. Only when all have ended, or all of the first prompt."""
        done = self.results[0]
        assert done is not None
        said: dict[str, Any] = {"warnings": self.warnings} if self.warnings else {}
        return said | ({"timings": _timings(done)} if timings else {}) | {"seed": done.seed}

    def close(self, error: BaseException | None = None, *, status: int = 200) -> None:
        """The end: cancel what still runs, say how it went, give place and model back. Twice is harmless.

        status: of the reply; that of a stream is sent before anything can fail.
        """
        if self._closed:
            return
        self._closed = True
        whole = None not in self.results
        if not whole:
            self._cancel()
        try:
            self._log(error, whole)
            if (telemetry := self.visit.service.telemetry) is not None:
                telemetry.tell(self._story(error, whole, status))
        finally:
            self.visit.close()

    def _log(self, error: BaseException | None, whole: bool) -> None:
        visit, log = self.visit, self.visit.service.log
        facts: dict[str, Any] = {
            "id": visit.id, "path": visit.path, "caller": visit.caller, "model": visit.model,
            "sha256": visit.lease.served.sha256[:12],
        }  # fmt: skip
        if visit.lease.alias is not None:
            facts["alias"] = visit.lease.alias
        if whole:
            facts |= self._figures()
        else:
            facts |= {"tokens_in": sum(map(len, self.prompts)), "tokens_out": self._tokens}
        if log.prompts:
            facts["prompts"] = [visit.lease.engine.tokenizer.decode(tokens) for tokens in self.prompts]
            facts["answers"] = [a.text for r in self.results if r is not None for a in r.answers]
        if whole:
            log.info("request", **facts)
        elif isinstance(error, EngineError) or (error is not None and not isinstance(error, CutawayError | ApiError)):
            log.error("request", **facts, finish="error", error=str(error))
        elif error is not None:
            log.info("request", **facts, finish="error", error=str(error))
        else:
            visit.service.metrics.cancelled(visit.model)
            log.info("request", **facts, finish="cancelled")

    def _story(self, error: BaseException | None, whole: bool, status: int) -> Story:
        visit, usage = self.visit, self.usage()
        failed = "" if whole or error is None else type(error).__name__
        if isinstance(error, Exception):
            failed = as_api_error(error).code or failed
        return Story(
            visit.id, visit.path, visit.model, visit.lease.alias or visit.model, visit.headers, visit.began,
            self._submitted, time_ns(), self.params, self._answered,
            usage.prompt_tokens or sum(map(len, self.prompts)), usage.completion_tokens or self._tokens,
            usage.cached_tokens, failed if whole or error is not None else "cancelled",
            status,
        )  # fmt: skip

    def _figures(self) -> dict[str, Any]:
        done = [result for result in self.results if result is not None]
        usage, times, broke = self.usage(), done[0].timings, done[0].broke
        tokens = len(done[0].token_ids)
        return {
            "tokens_in": usage.prompt_tokens, "tokens_out": usage.completion_tokens, "cached": usage.cached_tokens,
            "hit_rate": round(usage.cached_tokens / usage.prompt_tokens, 3) if usage.prompt_tokens else 0.0,
            "queue_ms": round(times.queued * 1e3, 1), "ttft_ms": round(times.ttft * 1e3, 1),
            "tpot_ms": round(times.decode * 1e3 / (tokens - 1), 2) if tokens > 1 else None,
            "total_ms": round(times.total * 1e3, 1), "finish": done[0].stop.kind, "seed": done[0].seed,
        } | ({} if broke is None else {"broke_at": broke.at, "broke_by": broke.reason})  # fmt: skip


def _timings(done: Result) -> dict[str, Any]:
    """Of the first answer to a prompt, in seconds, and rates in tokens a second; and what was there of the prompt."""
    times, usage = done.timings, done.usage
    computed, later = usage.prompt_tokens - usage.cached_tokens, max(0, len(done.token_ids) - 1)
    return {
        "queued": times.queued, "prefill": times.prefill, "decode": times.decode, "total": times.total,
        "ttft": times.ttft, "preemptions": times.preemptions, "drafted": times.drafted,
        "accepted": times.accepted, "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens, "cache": _cache(done),
        "prefill_per_second": computed / times.prefill if times.prefill else None,
        "decode_per_second": later / times.decode if times.decode else None,
    }  # fmt: skip


def _cache(done: Result) -> dict[str, Any]:
    """How much of the prompt was found, and the first token that was not; null where nothing broke the match."""
    at, token, reason, expected = None, None, None, []
    if done.broke is not None:
        at, token, reason, expected = done.broke.at, done.broke.token, done.broke.reason, list(done.broke.expected)
    return {
        "cached_tokens": done.usage.cached_tokens, "broke_at": at, "reason": reason, "token": token,
        "expected": expected,
    }  # fmt: skip
