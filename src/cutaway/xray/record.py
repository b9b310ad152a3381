"""The record of one served answer: what cannot be computed again, so that everything else can be.

One record is one answer: one choice of one prompt of one request. A request with several answers leaves several
records with the same `request`. `record_json.py` writes and reads it as JSON; docs/api.md lists the fields.

Units: milliseconds on the engine's clock, counted from the moment the prompt was submitted, unless a field says
otherwise; moments in seconds since 1970; tokens, pages, bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cutaway.sampling import SamplingParams
from cutaway.xray.same_start import same_start

VERSION = 1
"""Of the record's schema. A field that is added does not change it; one that changes its meaning does."""
Level = Literal["figures", "contents"]
"""What a record holds: figures only, or token ids too, which are the text of prompt and answer."""


@dataclass(frozen=True, slots=True)
class System:
    """What computed the answer. Everything but `threads`, `build` and the names can change its bits.

    model: the name it was served under; sha256: of its files ("" where unknown); adapter: None, there is none yet.
    build: version and a hash of the compiled extension. instruction_set: of the kernels. template: SHA-256 of the chat
    template, None if the model has none. kv_k, kv_v: types of stored keys and values. context: tokens that prompt and
    answer may have together. rope_scaling: as the option says it, None: the model's own. threads: how many computed.
    source: what the model was loaded from, as `--model` takes it.
    """

    model: str
    sha256: str
    build: str
    instruction_set: str
    backend: str
    kv_k: str
    kv_v: str
    context: int
    template: str | None = None
    rope_scaling: str | None = None
    adapter: str | None = None
    threads: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """A part of the prompt (or, after a preemption, of prompt and answer) that one step read.

    start: its first token; tokens: how many; done_ms: when the step had ended.
    """

    start: int
    tokens: int
    done_ms: float


@dataclass(frozen=True, slots=True)
class Slide:
    """The prompt became shorter while the answer went on (`truncation: slide`).

    after: tokens of the answer that were there; prompt: the token ids from then on, None at the level "figures".
    """

    after: int
    prompt: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Figures:
    """How the answer went. cached: prompt tokens that were found in pages; broke_at, broke_by: the first token that
    was not, and why; pages: held at most; preemptions: how often its pages were taken; drafted, accepted: tokens of
    the answer that speculation computed beforehand, and those of them that were chosen. None: never came so far."""

    queued_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    total_ms: float | None = None
    cached: int = 0
    broke_at: int | None = None
    broke_by: str | None = None
    pages: int | None = None
    preemptions: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def ttft_ms(self) -> float | None:
        """From submission to the first token."""
        return None if self.queued_ms is None or self.prefill_ms is None else self.queued_ms + self.prefill_ms


@dataclass(frozen=True, slots=True)
class Ending:
    """Why it ended. kind: a StopKind ("end_token", "length", "cancelled", ...); matched: the token id or text that
    ended it; status: of the HTTP reply, 0 where there was none; error, message: code and text of what failed."""

    kind: str
    matched: str | int | None = None
    status: int = 0
    error: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One answer.

    id: made by the server, names the record. request: the x-request-id, which the client may have chosen. caller: a
    hash of its key, or its address; "local" for `run` and `chat`. began: when the request came. path: its route, or
    the command. prompt: its number among the request's prompts; choice: the answer's number among the prompt's.
    parameters: all of them, every default filled in; withheld: names of those whose values the level leaves out;
    own_stages: functions among the stages, which no record can hold. seed: the one that was used.
    clock: the moment that the template saw as now, None if it saw none.
    prompt_tokens, tokens: how many. prompt_ids, token_ids: which, None at the level "figures".
    token_ms: when each token of the answer was chosen. ranks, probabilities: of each token where the sampler had
    them, in the model's distribution and in the one drawn from; None where it had none.
    hashes: of each row of logits that gave a token, 16 hex digits, None if the server kept none.
    """

    id: str
    request: str
    caller: str
    began: float
    path: str
    level: Level
    system: System
    parameters: SamplingParams
    seed: int
    prompt_tokens: int
    tokens: int
    end: Ending
    prompt: int = 0
    choice: int = 0
    withheld: tuple[str, ...] = ()
    own_stages: int = 0
    clock: float | None = None
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    token_ms: tuple[float, ...] = ()
    ranks: tuple[int | None, ...] | None = None
    probabilities: tuple[float | None, ...] | None = None
    hashes: tuple[str, ...] | None = None
    chunks: tuple[PrefillChunk, ...] = ()
    slides: tuple[Slide, ...] = ()
    figures: Figures = field(default_factory=Figures)
    warnings: tuple[str, ...] = ()
    version: int = VERSION

    def with_choice(self, choice: int | None, others: Iterable[RequestRecord]) -> RequestRecord | None:
        """The record, here or among others, of that answer to the same prompt of the same request; None: there is
        none. choice: None: this one."""
        if choice in (None, self.choice):
            return self
        prompt = (self.request, self.caller, self.began, self.prompt)
        same = (one for one in others if (one.request, one.caller, one.began, one.prompt) == prompt)
        return next((one for one in same if one.choice == choice), None)

    @property
    def failed(self) -> bool:
        """Whether it did not end by itself: it failed, or its client left."""
        return self.end.kind in ("error", "cancelled") or self.end.status >= 400

    @property
    def forced_length(self) -> bool:
        """Whether something outside the tokens ended it, so that a replay ends it after as many tokens."""
        return self.end.kind in ("time", "cancelled", "error")


def same_answer(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first index at which two answers differ, also where one is only longer; None: they are equal."""
    at = same_start(one, other)
    return None if at == len(one) == len(other) else at
