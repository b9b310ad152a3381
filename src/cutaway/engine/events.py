"""The events of an engine: one per token, and exactly one `Finished` per answer in every case."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutaway.cache import PrefixBreak
from cutaway.engine.notes import Notes
from cutaway.errors import CutawayError
from cutaway.sampling import StopReason

Logprob = tuple[int, float]
"""A token id and its log-probability in nats."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of a prompt or an answer. rank: its place in the model's distribution, from 1. top: the most probable
    ones."""

    token: int
    logprob: float
    rank: int
    top: tuple[Logprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. cached: prompt tokens whose keys and values were in pages already and were not computed."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. queued: from submission to the request's first step. prefill: from there to the first token. decode:
    from the first token to the end. total: all three. preemptions: how often its pages were taken. drafted,
    accepted: tokens of the answer that speculation drafted, and those that were accepted."""

    queued: float
    prefill: float
    decode: float
    total: float
    preemptions: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def ttft(self) -> float:
        """Seconds from submission to the first token."""
        return self.queued + self.prefill


@dataclass(frozen=True, slots=True)
class TokenChosen:
    """One token of one answer. text: the text that can be shown now; "" while characters or stops are held back."""

    request: int
    choice: int
    index: int
    token: int
    text: str
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one answer. text: the text that was held back and is released now.

    prompt_logprobs: one entry per prompt token, None for the first, if requested. error: the cause if `stop.kind` is
    "error". warnings: deviations from the request. broke: the first token of the prompt that was not found in pages
    when it began, and the reason. notes: times, chunks and pages, for records.
    """

    request: int
    choice: int
    text: str
    stop: StopReason
    usage: Usage
    timings: Timings
    seed: int
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    warnings: tuple[str, ...] = ()
    error: CutawayError | None = None
    broke: PrefixBreak | None = None
    notes: Notes | None = field(default=None, repr=False, compare=False)


Event = TokenChosen | Finished
