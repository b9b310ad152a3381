"""The scheduler's view of a request, and its plan for a step. Integers only."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from cutaway.cache import PageTables
from cutaway.engine.cost import pairs


@dataclass(slots=True, eq=False)
class Work:
    """The scheduler's view of a request.

    tokens: prompt and answer so far. drafts: tokens that may follow. rows_from: the first position whose logits are
    needed. key: what its keys and values depend on besides the tokens; prefixes are shared only within the same key.
    turn: the order of prompts.
    """

    id: int
    tokens: list[int]
    rows_from: int
    key: Hashable = None
    computed: int = 0
    turn: int = 0
    prompt: int = field(init=False)
    drafts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prompt = len(self.tokens)

    def restart(self, prompt: list[int]) -> None:
        """Put the answer so far after another prompt, with nothing computed. The request must not be running."""
        self.tokens[: self.prompt] = prompt
        self.prompt, self.computed, self.drafts = len(prompt), 0, []
        self.rows_from = len(self.tokens) - 1

    @property
    def due(self) -> int:
        return len(self.tokens) + len(self.drafts) - self.computed

    @property
    def reads(self) -> bool:
        """Whether its prompt is due, or, after a preemption, more than its last token."""
        return len(self.tokens) == self.prompt or len(self.tokens) - self.computed > 1

    @property
    def answers_one(self) -> bool:
        """Whether one token of its answer is due."""
        return self.due == 1 and len(self.tokens) > self.prompt


@dataclass(frozen=True, slots=True)
class Chunk:
    """`count` tokens of a request from position `start` on. Logits are needed for the last `rows` of them, and the last
    `drafted` are drafts."""

    work: Work
    start: int
    count: int
    rows: int
    drafted: int = 0


@dataclass(frozen=True, slots=True)
class Preemption:
    """A request that gave its pages back, and the figures that caused it. Pages are counted per group of layers.

    computed: its tokens that must be computed again. held: pages that it had. gainer: the request that needed pages;
    granted: tokens that it was to compute; needed: pages that these take; available: those that could be taken before.
    """

    work: Work
    computed: int
    held: tuple[int, ...]
    gainer: int
    granted: int
    needed: tuple[int, ...]
    available: tuple[int, ...]

    @classmethod
    def of(cls, work: Work, gainer: Work, granted: int, pages: PageTables) -> Preemption:
        """Before it happens."""
        needed = pages.need(gainer.id, pages.length(gainer.id) + granted)
        return cls(work, work.computed, pages.held(work.id), gainer.id, granted, needed, pages.available)


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. admitted: requests that begin (or begin again) with it. reading: of a text that is known, after the
    requests' chunks (readings.py)."""

    chunks: tuple[Chunk, ...]
    admitted: tuple[Work, ...]
    preemptions: tuple[Preemption, ...] = ()
    reading: Chunk | None = None

    @property
    def preempted(self) -> tuple[Work, ...]:
        """Those that gave their pages back."""
        return tuple(one.work for one in self.preemptions)

    @property
    def batch(self) -> tuple[Chunk, ...]:
        """All that is computed, in the order of the step's arrays."""
        return self.chunks if self.reading is None else (*self.chunks, self.reading)

    @property
    def drafted(self) -> int:
        return sum(chunk.drafted for chunk in self.chunks)

    @property
    def tokens(self) -> int:
        return sum(chunk.count for chunk in self.batch)

    @property
    def pairs(self) -> int:
        return sum(pairs(chunk.start, chunk.count) for chunk in self.batch)
