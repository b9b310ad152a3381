"""Collected events: the answers to one prompt, and the stream of their pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from cutaway.cache import PrefixBreak
from cutaway.engine.events import Event, Finished, Timings, TokenChosen, TokenLogprob, Usage
from cutaway.engine.notes import Notes
from cutaway.engine.request import Stream
from cutaway.errors import CutawayError
from cutaway.sampling import StopReason


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice. token_ids: all chosen tokens, including the one that ended it. text: without the stop.

    logprobs: one per token if requested. error: the cause if `stop.kind` is "error". notes: for records.
    """

    text: str
    token_ids: tuple[int, ...]
    stop: StopReason
    logprobs: tuple[TokenLogprob, ...] | None
    timings: Timings
    error: CutawayError | None = None
    notes: Notes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one prompt: `answers`, one per choice. The properties refer to the first.

    usage: the prompt once, and the tokens of all answers. seed: reproduces each answer, together with the choice's
    index. prompt_logprobs: per prompt token, None for the first. warnings: deviations from the request. broke: the
    first token of the prompt whose keys and values were not in the cache, and the reason; None if all were that can be.
    """

    answers: tuple[Answer, ...]
    prompt_token_ids: tuple[int, ...]
    usage: Usage
    seed: int
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    warnings: tuple[str, ...] = ()
    broke: PrefixBreak | None = None

    @property
    def text(self) -> str:
        return self.answers[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.answers[0].token_ids

    @property
    def stop(self) -> StopReason:
        return self.answers[0].stop

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        return self.answers[0].logprobs

    @property
    def timings(self) -> Timings:
        return self.answers[0].timings

    @property
    def error(self) -> CutawayError | None:
        """The first error of any answer."""
        return next((answer.error for answer in self.answers if answer.error is not None), None)


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a stream. token: None at the end of an answer. result: the complete result, with the last piece of
    all."""

    text: str
    choice: int = 0
    token: int | None = None
    logprob: TokenLogprob | None = None
    stop: StopReason | None = None
    result: Result | None = None


class Collector:
    """Collects the events of one prompt."""

    def __init__(self, prompt: Sequence[int], choices: int) -> None:
        self._prompt = tuple(prompt)
        self._tokens: list[list[TokenChosen]] = [[] for _ in range(choices)]
        self._ends: dict[int, Finished] = {}

    def add(self, event: Event) -> Delta:
        """Add an event, and return it as a piece of the stream."""
        if isinstance(event, TokenChosen):
            self._tokens[event.choice].append(event)
            return Delta(event.text, event.choice, event.token, event.logprob)
        self._ends[event.choice] = event
        result = self.result() if len(self._ends) == len(self._tokens) else None
        return Delta(event.text, event.choice, stop=event.stop, result=result)

    def result(self) -> Result:
        """The complete result, when every choice has ended."""
        ends = [self._ends[choice] for choice in range(len(self._tokens))]
        completion = sum(end.usage.completion_tokens for end in ends)
        return Result(
            answers=tuple(_answer(tokens, end) for tokens, end in zip(self._tokens, ends, strict=True)),
            prompt_token_ids=self._prompt,
            usage=Usage(len(self._prompt), completion, ends[0].usage.cached_tokens),
            seed=ends[0].seed,
            prompt_logprobs=ends[0].prompt_logprobs,
            warnings=tuple(dict.fromkeys(warning for end in ends for warning in end.warnings)),
            broke=ends[0].broke,
        )


def _answer(tokens: Sequence[TokenChosen], end: Finished) -> Answer:
    logprobs = tuple(event.logprob for event in tokens if event.logprob is not None)
    return Answer(
        text="".join(event.text for event in tokens) + end.text,
        token_ids=tuple(event.token for event in tokens),
        stop=end.stop,
        logprobs=logprobs if len(logprobs) == len(tokens) and tokens else None,
        timings=end.timings,
        error=end.error,
        notes=end.notes,
    )


class AnswerStream:
    """An iterator over the pieces of one prompt's answers. Leaving it early (close, `with`, garbage collection)
    cancels.

    After `cancel` it can be iterated to its end: the last piece has the result so far.
    """

    def __init__(self, stream: Stream, prompt: Sequence[int], keeps: object = None) -> None:
        """keeps: an object that must live as long as the stream (the engine)."""
        self.cancel = stream.cancel
        self._keeps = keeps
        self._stream = stream
        self._collector = Collector(prompt, len(stream.requests))
        self._ended = False

    def __iter__(self) -> Iterator[Delta]:
        return self

    def __next__(self) -> Delta:
        if self._ended:
            raise StopIteration
        delta = self._collector.add(self._stream.next())
        self._ended = delta.result is not None
        return delta

    def result(self) -> Result:
        """Read to the end and return the complete result."""
        for delta in self:
            if delta.result is not None:
                return delta.result
        return self._collector.result()

    def close(self) -> None:
        """Cancel the answers that have not ended."""
        if not self._ended:
            self._ended = True
            self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):
            self.close()
