"""A running request: its model and its place, its prompts at the engine, and the pieces of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from time import time_ns
from typing import Any

from cutaway.engine import Collector, Delta, Finished, Result, Shorten, Stream, TokenLogprob, Usage
from cutaway.errors import CutawayError
from cutaway.sampling import SamplingParams, StopReason
from cutaway.sampling.constraints.compile import compile_constraint
from cutaway.server.generation.event_queue import Mailbox
from cutaway.server.generation.output_parser import Reader, Told
from cutaway.server.models.visit import Visit
from cutaway.server.observe.flight import Flight
from cutaway.server.observe.request_report import RequestReport, timings_json
from cutaway.server.transport.errors import ApiError

_REASONS = {"length": "length", "context": "length", "time": "length", "repetition": "length"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of one answer. choice: prompt * n + choice of the prompt. token: None at the end of the answer.

    told: the new output, separated into reasoning, text and calls. stop, reason: at the end. result: with the last
    answer of its prompt.
    """

    choice: int
    told: Told
    token: int | None = None
    logprob: TokenLogprob | None = None
    stop: StopReason | None = None
    reason: str | None = None
    result: Result | None = None


def own_copy(error: CutawayError) -> CutawayError:
    """A copy of the error to raise. An error of a whole step belongs to all its requests; each raises its own copy, so
    that tracebacks do not accumulate."""
    copied = copy(error)
    copied.__cause__ = error.__cause__ or error
    return copied


class Run:
    """The answers to a request's prompts. `pieces` can be read once; `close` ends everything in any state.

    shorten: for each prompt, the function that shortens it when the context is full; empty: answers end there. key: the
    request's salt; its prefixes are shared only with requests of the same caller and salt.
    """

    def __init__(
        self,
        visit: Visit,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        *,
        reader: Callable[[], Reader] = Reader,
        key: str | None = None,
        shorten: Sequence[Shorten | None] = (),
        clock: float | None = None,
    ) -> None:
        self.visit = visit
        self.prompts = prompts
        self.params = params
        self.results: list[Result | None] = [None] * len(prompts)
        self._key = visit.prefix_key(key)
        self._shorten = shorten
        self._readers = [reader() for _ in range(len(prompts) * params.n)]
        self._mailbox = Mailbox(asyncio.get_running_loop(), visit.service.config.server.max_events)
        self._streams: list[Stream] = []
        self.reasoning_tokens = 0
        self._closed = False
        self._flight = Flight(visit, prompts, params, clock)
        self.report = RequestReport(visit, prompts, params, self.results)

    @property
    def warnings(self) -> list[str]:
        """All warnings so far without duplicates: those of the request, the engine and the output parsers."""
        said = [*self.visit.warnings]
        said += [w for result in self.results if result is not None for w in result.warnings]
        said += [w for reader in self._readers for w in reader.warnings]
        return list(dict.fromkeys(said))

    async def start(self) -> None:
        """Submit all prompts to the engine. Raises CutawayError if the engine refuses one; then nothing runs."""
        service, engine = self.visit.service, self.visit.lease.engine
        if self.params.constraint is not None:
            compiled = await service.in_thread(compile_constraint, *self.params.constraint, engine.tokenizer)
            service.metrics.compiled(self.visit.model, compiled.seconds)
            self.visit.warnings += compiled.warnings
        submitted = time_ns()
        await service.in_thread(self._submit)
        self.report.submitted = submitted

    def _submit(self) -> None:
        engine = self.visit.lease.engine
        try:
            for number, tokens in enumerate(self.prompts):
                slot = self._flight.sink(number, self._mailbox.slot(number))
                shorten = self._shorten[number] if self._shorten else None
                stream = engine.submit(
                    tokens, self.params, sink=slot, key=self._key, name=self._name(number), shorten=shorten
                )
                self._streams.append(stream)
                self.visit.owns(stream)
                if self._closed:  # the client has disconnected meanwhile
                    self._cancel()
        except BaseException:
            self._cancel()
            raise

    def _name(self, number: int) -> str:
        """The prompt's name for a recorder: the request's id, followed by a number if there are several prompts."""
        return self.visit.id if len(self.prompts) == 1 else f"{self.visit.id}#{number}"

    def _cancel(self) -> None:
        for stream in self._streams:
            stream.cancel()

    async def pieces(self) -> AsyncIterator[Piece]:
        """Pieces in the order of their arrival. Raises the error of the first answer that fails."""
        collectors = [Collector(tokens, self.params.n) for tokens in self.prompts]
        left = len(self._readers)
        async for prompt, event in self._mailbox.take():
            if isinstance(event, Finished) and event.error is not None:
                raise own_copy(event.error)
            if isinstance(event, Finished) and event.stop.kind == "cancelled":
                raise ApiError(503, "the server is shutting down", code="shutting_down", retry_after=5)
            delta = collectors[prompt].add(event)
            piece = self._piece(prompt, delta)
            if isinstance(event, Finished):
                left -= 1
                self.report.answered(piece.choice, event, piece.reason or "", piece.result)
            yield piece
            if not left:
                return

    def _piece(self, prompt: int, delta: Delta) -> Piece:
        choice = prompt * self.params.n + delta.choice
        reader = self._readers[choice]
        told = reader.push(delta.text)
        if delta.stop is None:
            self.reasoning_tokens += bool(told.reasoning)
            self.report.token(choice, delta)
            return Piece(choice, told, delta.token, delta.logprob)
        told = told + reader.finish(cut=delta.stop.kind != "end_token")
        reason = _REASONS.get(delta.stop.kind, "stop")
        if reason == "stop" and reader.called:
            reason = reader.reason
        if delta.result is not None:
            self.results[prompt] = delta.result
        return Piece(choice, told, stop=delta.stop, reason=reason, result=delta.result)

    def usage(self) -> Usage:
        """The usage of all prompts so far."""
        if None in self.results:
            cached = sum(stream.cached_tokens for stream in self._streams)
            return Usage(sum(map(len, self.prompts)), self.report.tokens, cached)
        return self.report.usage()

    def asides(self, *, timings: bool) -> dict[str, Any]:
        """Fields that every API has once beside the answers. Available when all answers, or all of the first prompt,
        have ended."""
        done = self.results[0]
        assert done is not None
        said: dict[str, Any] = {"warnings": self.warnings} if self.warnings else {}
        if timings:
            said["timings"] = timings_json(done, shared=self.visit.shares_prefixes)
        return said | {"seed": done.seed}

    def close(self, error: BaseException | None = None, *, status: int = 200) -> None:
        """End the request: cancel what still runs, write the report, return the place and the model. May be called
        twice.

        status: the status of the reply; that of a stream is sent before anything can fail.
        """
        if self._closed:
            return
        self._closed = True
        if not self.report.whole:
            self._cancel()
        try:
            self.report.close(error, status)
        finally:
            self._flight.close(status, error)
            self.visit.close()
