"""Snapshots of an engine while it works.

The engine's own thread takes a snapshot, between two steps, and only on request: the request is one of its messages, so
an engine that is not watched does nothing for it. At most two snapshots a second are taken; a request that comes sooner
gets the latest one. From the first snapshot on, until `WATCHED` seconds have passed without a request for one, the
figures of each step are kept, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from threading import Lock
from time import monotonic, time
from typing import TypeVar

from cutaway.cache import Snapshot
from cutaway.engine.inbox import Call
from cutaway.engine.loop import EngineCore
from cutaway.engine.preemptions import NotedPreemption
from cutaway.engine.request import Request
from cutaway.engine.step_plan import Plan
from cutaway.engine.trace_records import Laps
from cutaway.errors import EngineError

T = TypeVar("T")
APART = 0.5  # seconds between two looks
WATCHED = 15.0  # seconds that steps are kept for after a look
STEPS = 256  # steps that are kept


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One answer in the making. key: what its prefixes are shared within. prompt, answer: tokens; computed: of both,
    those whose keys and values lie in pages; found: of the prompt, those that were there. age: seconds since it was
    submitted."""

    id: int
    name: str
    choice: int
    key: Hashable
    running: bool
    prompt: int
    answer: int
    computed: int
    found: int
    age: float


@dataclass(frozen=True, slots=True)
class SeenChunk:
    """What a step computed of one request: `count` tokens from position `start` on, and rows of logits. id: below 0 for
    a known text that is read again (readings.py)."""

    id: int
    start: int
    count: int
    rows: int


@dataclass(frozen=True, slots=True)
class SeenStep:
    """One step. at: when it ended, in seconds since 1970. milliseconds: per part (plan, batch, forward, sample), in
    order. predicted: milliseconds that the forward part was believed to take. waiting: requests. admitted, preempted:
    ids. pages: (free, held, cached) per group of layers, after it."""

    number: int
    at: float
    chunks: tuple[SeenChunk, ...]
    milliseconds: Mapping[str, float]
    predicted: float
    drafted: int
    waiting: int
    admitted: tuple[int, ...]
    preempted: tuple[int, ...]
    pages: tuple[tuple[int, int, int], ...]

    @property
    def tokens(self) -> int:
        return sum(chunk.count for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Look:
    """An engine at one moment. at: seconds since 1970; moment: the same on the monotonic clock, as ages of pages are.

    steps: so far. log: the latest of them, oldest first, since `watched_since` (seconds since 1970). preemptions: the
    latest ever. snapshot: the pages, with maps.
    """

    at: float
    moment: float
    steps: int
    requests: tuple[SeenRequest, ...]
    snapshot: Snapshot
    log: tuple[SeenStep, ...]
    watched_since: float
    preemptions: tuple[NotedPreemption, ...]


def at_boundary(core: EngineCore, work: Callable[[], T]) -> Future[T]:
    """Have the engine's thread do something between two steps. The future has an EngineError where it has ended."""
    call = Call(work)
    with core._gate:
        if core._closed:
            call.refuse(EngineError("the engine was closed"))
        else:
            core._inbox.put((call, ()))
    return call.future


class Watch:
    """Looks at one engine. From any thread."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._lock = Lock()  # one look at a time; who waits for it gets the same one
        self._last: Look | None = None
        self._until = 0.0
        self._since = 0.0
        self._log: deque[SeenStep] = deque(maxlen=STEPS)

    def look(self, timeout: float = 10.0) -> Look:
        """How the engine stands: at the end of the step that runs, or at most `APART` seconds ago. Raises EngineError
        where the engine was closed, or takes longer than `timeout` seconds for a step."""
        with self._lock:
            if self._last is not None and monotonic() - self._last.moment < APART:
                return self._last
            future = at_boundary(self._core, self._take)
            try:
                self._last = future.result(timeout)
            except Late:
                future.cancel()
                raise EngineError(f"the step that runs takes longer than {timeout:g} s") from None
            return self._last

    @property
    def preemptions(self) -> tuple[NotedPreemption, ...]:
        """The latest; they are kept even while the engine is not watched."""
        return tuple(self._core.preempted.copy())

    # --- in the engine's thread -------------------------------------------------------------------------------------
    def _take(self) -> Look:
        core, now = self._core, monotonic()
        if core.observe_step is None:
            self._log.clear()
            self._since = time()
            core.observe_step = self._note
        self._until = now + WATCHED
        running = {work.id for work in core.scheduler.running}
        return Look(
            at=time(), moment=now, steps=core.steps,
            requests=tuple(_seen(request, request.id in running, now) for request in core._requests.values()),
            snapshot=core.pages.snapshot(pages=True), log=tuple(self._log), watched_since=self._since,
            preemptions=tuple(core.preempted),
        )  # fmt: skip

    def _note(self, plan: Plan, laps: Laps) -> None:
        core = self._core
        if monotonic() > self._until:
            core.observe_step = None
            self._log.clear()
        elif plan.batch:
            self._log.append(
                SeenStep(
                    core.steps, time(),
                    tuple(SeenChunk(chunk.work.id, chunk.start, chunk.count, chunk.rows) for chunk in plan.batch),
                    laps.milliseconds, core.cost.predict(plan.tokens, plan.pairs) / 1e3, plan.drafted,
                    len(core.scheduler.waiting), tuple(work.id for work in plan.admitted),
                    tuple(work.id for work in plan.preempted),
                    tuple((pool.free, pool.held, pool.cached) for pool in core.pages.pools),
                )
            )  # fmt: skip


def _seen(request: Request, running: bool, now: float) -> SeenRequest:
    work = request.work
    return SeenRequest(
        request.id, request.name, request.choice, work.key, running, work.prompt, request.outputs, work.computed,
        request.cached_tokens, now - request.submitted,
    )  # fmt: skip
