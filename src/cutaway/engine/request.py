"""One answer in progress: its tokens, its sampler and stops, its times, and the sink of its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from time import monotonic
from typing import Protocol

from cutaway.cache import PrefixBreak
from cutaway.engine.cost import CostModel, pairs
from cutaway.engine.counts import Counts
from cutaway.engine.events import Event, Finished, Timings, TokenChosen, TokenLogprob, Usage
from cutaway.engine.notes import Notes
from cutaway.engine.sliding_context import Shorten, room_for_more
from cutaway.engine.speculation import Speculator
from cutaway.engine.step_plan import Chunk, Work
from cutaway.errors import CutawayError
from cutaway.ops.protocol import F32
from cutaway.sampling import Choice, Sampler, SamplingParams, StopChecker, StopReason, token_logprobs
from cutaway.trace import Recorder

AGAINST_LOOPS = "a higher temperature, repetition_penalty or dry_multiplier may help; stop_on_repetition ends it"


class Sink(Protocol):
    """Receives a request's events. The engine's thread calls `put`, which must neither wait nor fail."""

    def put(self, event: Event, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """The next token of an answer: the text that can be shown now, and the reason if it ends the answer."""

    choice: Choice
    text: str
    stop: StopReason | None


class Request:
    """Written only by the engine's thread after submission. A prompt with n choices is n requests."""

    def __init__(
        self, work: Work, params: SamplingParams, sampler: Sampler, stops: StopChecker, *,
        choice: int, seed: int, events: Sink, name: str | None = None, counts: Counts | None = None,
        hashing: bool = False,
    ) -> None:
        self.work = work
        self.name = str(work.id) if name is None else name  # its name in records
        self.params = params
        self.choice = choice
        self.seed = seed
        self.sampler = sampler
        self.stops = stops
        self.events = events
        self._counts = counts or Counts()
        self.finished = False
        self.most = 0  # maximum tokens of the answer; used by speculation only
        self.speculator: Speculator | None = None
        self.shorten: Shorten | None = None  # of its prompt, when the context is full
        self.prompt_logprobs: list[TokenLogprob | None] = [None]
        self.warnings: list[str] = []
        self._prompt = work.prompt  # tokens as submitted; some may be dropped later
        self._cached: int | None = None
        self._broke: PrefixBreak | None = None
        self._preemptions = 0
        self.submitted = monotonic()
        self.notes = Notes(self.submitted, hashing=hashing)
        self._started: float | None = None
        self._first: float | None = None

    @property
    def id(self) -> int:
        return self.work.id

    @property
    def outputs(self) -> int:
        """Tokens of the answer so far."""
        return len(self.work.tokens) - self.work.prompt

    @property
    def wants_prompt_logprobs(self) -> bool:
        return self.params.prompt_logprobs is not None and self.choice == 0

    @property
    def cached_tokens(self) -> int:
        return min(self._cached or 0, self.work.prompt)

    def out_of_time(self, now: float) -> bool:
        return self.params.time_limit is not None and now - self.submitted >= self.params.time_limit

    def admitted(self, broke: PrefixBreak | None = None) -> None:
        """The scheduler has started the request, for the first time or again. broke: why no more of it was found in
        pages."""
        if self._cached is None:
            self._cached, self._broke = self.work.computed, broke
            self._counts.looked_up += self.work.prompt
            self._counts.found += min(self._cached, self.work.prompt)
            self._started = monotonic()

    def shorter(self, context: int) -> list[int] | None:
        """A prompt that leaves room for more of the answer, with a warning about what was dropped; None if there is
        none."""
        assert self.shorten is not None
        answer = self.outputs
        prompt, what = self.shorten(max(0, context - answer - room_for_more(context)))
        if shorter := len(prompt) < self.work.prompt:
            self.notes.slides.append((answer, tuple(prompt)))
        end = f"{what} in all" if shorter else "no more of the prompt can be dropped, so the answer ended"
        self.warnings.append(
            f"truncation: after {answer} tokens of the answer the context of {context} was full; {end}"
        )
        return prompt if shorter else None

    def preempted(self) -> None:
        self._preemptions += 1

    def draft(self, cost: CostModel, sharers: int) -> None:
        """Draft tokens that probably follow the last one, as many as pay off in a step that `sharers` answers share."""
        if self.speculator is None:
            return
        work = self.work
        work.drafts = []
        if self.outputs and work.due == 1:
            one = cost.predict(1, pairs(work.computed, 1)) - cost.base
            left = self.most - self.outputs - 1
            work.drafts = self.speculator.draft(work.tokens, left, cost.base // sharers + one, one)

    def draws(self, chunk: Chunk) -> bool:
        """Whether the last row of the chunk gives a token, and no other row does."""
        return chunk.start + chunk.count == len(self.work.tokens) and self.params.max_tokens != 0

    def choose(
        self, chunk: Chunk, rows: Sequence[F32], recorder: Recorder, drawn: int | None = None
    ) -> Iterator[Chosen]:
        """Process a chunk's rows: the prompt's log-probabilities, then the next token, and one more for every accepted
        draft, up to the end of the answer. Returns nothing if no token is due yet.

        rows: the last chunk.rows rows, float32 [vocab] each. drawn: the token of the last row, if it `draws` and was
        drawn before. Raises EngineError if a row is not finite, and the errors of stages.
        """
        self.notes.computed(chunk)
        tokens, first = self.work.tokens, chunk.start + chunk.count - chunk.rows
        silent = len(tokens) - 1 - first  # rows of the prompt
        if silent:
            for row, token in zip(rows, tokens[first + 1 :], strict=False):
                told = token_logprobs(row, token, self.params.prompt_logprobs or 0)
                self.prompt_logprobs.append(TokenLogprob(token, told.logprob, told.rank, told.top))
        if self.params.max_tokens == 0:
            return
        drafts = self.work.drafts[: chunk.drafted]
        for at, row in enumerate(rows[silent:]):
            choice = self.sampler.choose(row, recorder, drawn)
            self.notes.row(row)
            text, stop = self.stops.push(choice.token)
            yield Chosen(choice, text, stop)
            if stop is not None or drafts[at : at + 1] != [choice.token]:
                return

    def learn(self, chosen: Sequence[Chosen], drafted: int) -> None:
        """Compare the chosen tokens with the drafts; `drafted` of them were computed."""
        if self.speculator is not None:
            self.speculator.learn([one.choice.token for one in chosen], drafted)

    def take(self, chosen: Chosen) -> None:
        """Append a token and send its event."""
        if self._first is None:
            self._first = monotonic()
            self._counts.prompt += self.work.prompt
        self._counts.generated += 1
        choice = chosen.choice
        self.notes.token(choice, processed=self.params.logprobs_mode == "processed")
        self.work.tokens.append(choice.token)
        logprob = None
        if self.params.logprobs is not None and choice.logprob is not None and choice.rank is not None:
            logprob = TokenLogprob(choice.token, choice.logprob, choice.rank, choice.top)
        self.events.put(TokenChosen(self.id, self.choice, self.outputs - 1, choice.token, chosen.text, logprob))

    def finish(self, stop: StopReason, error: CutawayError | None = None) -> None:
        """Send the last event."""
        assert not self.finished, "a request ends once"
        self.finished = True
        try:
            text = "" if error else self.stops.finish()
        except Exception as broken:  # the one event must be sent whatever the detokenizer does
            text, error = "", CutawayError(f"the end of the answer could not be decoded: {broken!r}")
        logprobs = tuple(self.prompt_logprobs) if self.wants_prompt_logprobs else None
        usage = Usage(self._prompt, self.outputs, min(self._cached or 0, self._prompt))
        if self.stops.loop is not None and stop.kind != "repetition":
            self.warnings.append(f"{self.stops.loop} ({AGAINST_LOOPS})")
        warnings, times = tuple(self.warnings), self._timings()
        self.events.put(
            Finished(
                self.id, self.choice, text, stop, usage, times, self.seed, logprobs, warnings, error, self._broke,
                self.notes,
            )
        )  # fmt: skip

    def _timings(self) -> Timings:
        begin, end = self.submitted, monotonic()
        started = end if self._started is None else self._started
        first = end if self._first is None else self._first
        drafted, accepted = (0, 0) if (s := self.speculator) is None else (s.drafted, s.accepted)
        spans = started - begin, first - started, end - first, end - begin
        return Timings(*spans, self._preemptions, drafted, accepted)


class Stream:
    """The caller's end of a submitted prompt: an iterator over the events of all its choices, in order of time.

    It ends after every choice has had its `Finished`. Iterate from one thread; cancel from any. If the caller gave a
    sink of its own, the events go there and there is nothing to iterate.
    """

    def __init__(
        self, requests: Sequence[Request], cancel: Callable[[Request], None], events: SimpleQueue[Event]
    ) -> None:
        self.requests = tuple(requests)
        self.events = events
        self._cancel = cancel
        self._open = len(requests)

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were found in pages; 0 until its first step."""
        return self.requests[0].cached_tokens

    def cancel(self) -> None:
        """End all choices at the next step boundary. Each still has its `Finished`, of kind "cancelled"."""
        for request in self.requests:
            self._cancel(request)

    def only(self, choice: int) -> None:
        """Cancel all choices but this one."""
        for request in self.requests:
            if request.choice != choice:
                self._cancel(request)

    def __iter__(self) -> Iterator[Event]:
        while self._open:
            yield self.next()

    def next(self, timeout: float | None = None) -> Event:
        """The next event. Raises queue.Empty if none arrives within `timeout` seconds."""
        event = self.events.get(timeout=timeout)
        self._open -= isinstance(event, Finished)
        return event
