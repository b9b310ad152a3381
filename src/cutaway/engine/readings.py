"""Readings: known texts that are read again for their rows of logits, beside the requests and behind them.

A request that has ended leaves only what cannot be computed again; the rest is computed on demand, by reading its
prompt and answer once more. What a reading may cost the requests is bounded:

- it takes none of their places, and of two readings the first goes first;
- it gives its pages back before a request would be without one, so it never preempts (what is written stays findable,
  and is taken up again);
- while requests wait for their first step it rests; beside running ones it has one part in SHARE of their predicted
  time, what the asker makes of a row included (it is made between two steps, in the engine's thread);
- a step of its own is as short as one in which a prompt is read to its end: a newcomer waits no longer than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from operator import ge
from queue import SimpleQueue
from threading import Lock
from typing import Any

from cutaway.engine.cost import pairs
from cutaway.engine.inbox import drained
from cutaway.engine.row_stream import RowStream, copied
from cutaway.engine.scheduler import Scheduler
from cutaway.engine.step_plan import Chunk, Plan, Work
from cutaway.errors import ContextExceededError, CutawayError, EngineError, ParameterError
from cutaway.ops.protocol import F32
from cutaway.ops.rows import Rows

SHARE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A text that is known, and where its rows go."""

    work: Work
    rows: RowStream[Any]


class Readings:
    """Of one engine. `open` from any thread, the rest from the engine's.

    vocab: columns of the logits. context: tokens that a text can have. wake: makes the engine look here if it sleeps.
    """

    def __init__(self, scheduler: Scheduler, *, vocab: int, context: int, wake: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._pages = scheduler.pages
        self._vocab = vocab
        self._context = context
        self._wake = wake
        self._inbox: SimpleQueue[Reading] = SimpleQueue()
        self._line: deque[Reading] = deque()
        self._last = 0
        self._saved = 0  # microseconds that may be spent beside requests
        self._gate = Lock()  # closes behind the last reading
        self._over: CutawayError | None = None

    # --- from any thread --------------------------------------------------------------------------------------------
    def open(
        self, tokens: Sequence[int], first: int, key: Hashable = None, look: Callable[[F32], Any] = copied
    ) -> RowStream[Any]:
        """What `look` makes of the rows at the positions `first` to the last of `tokens`: row i speaks of the token
        behind position first + i. key: as of a request.
        look: runs in the engine's thread; it must be quick, and copy what it keeps.

        Raises ParameterError for ids that the vocabulary has not, ContextExceededError, and EngineError after the end.
        """
        if not 0 <= first < len(tokens) or not all(0 <= token < self._vocab for token in tokens):
            raise ParameterError(f"a text of {len(tokens)} token ids below {self._vocab} is read from {first} on")
        if len(tokens) > self._context:
            raise ContextExceededError(f"{len(tokens)} tokens are to be read; the context holds {self._context}")
        stream = RowStream(len(tokens) - first, look, self._wake)
        with self._gate:
            if self._over is not None:
                raise EngineError(f"the engine reads no more texts; {self._over}") from self._over
            self._inbox.put(Reading(Work(0, list(tokens), first, key), stream))
        self._wake()
        return stream

    # --- the engine's thread ----------------------------------------------------------------------------------------
    @property
    def due(self) -> bool:
        """Whether the first reading can continue now. A reading whose reader has left is dropped."""
        if not self._inbox.empty():
            self._receive()
        while self._line and (self._line[0].rows.closed or not self._line[0].rows.left):
            self._release()
            self._line.popleft()
        return bool(self._line) and self._line[0].rows.room > 0

    def _receive(self) -> None:
        for reading in drained(self._inbox):
            self._last -= 1  # below 0: requests have the ids above
            reading.work.id = self._last
            self._line.append(reading)

    def _release(self) -> None:
        """Give the pages back; what is written of them stays findable."""
        work = self._line[0].work
        if work.id in self._pages:
            self._pages.close(work.id, work.tokens)
            work.computed = 0

    def make_way(self) -> None:
        """Before a step is planned: hold no page that a request may want in it."""
        scheduler = self._scheduler
        if self._line and (scheduler.waiting or not scheduler.fit(scheduler.running)):
            self._release()

    def beside(self, plan: Plan) -> Plan:
        """The plan, with what of the first reading may be done in the same step."""
        if self._scheduler.waiting or not self.due:
            return plan
        reading = self._line[0]
        work = reading.work
        if plan.chunks:  # a few steps may be needed for one row, but there is no burst after a rest
            self._saved += self._scheduler.cost.predict(plan.tokens, plan.pairs) // SHARE
            self._saved = min(self._saved, self._scheduler.limits.step_us + int(reading.rows.microseconds))
        if work.id not in self._pages:
            work.computed = self._pages.open(work.id, work.tokens, limit=work.rows_from, key=work.key)
        count = self._affordable(plan, reading)
        if count < 1:
            return plan
        self._pages.extend(work.id, count)
        price = self._price(work, count) if plan.chunks else 0
        reading.rows.tokens += count
        reading.rows.others_us += price
        reading.rows.computing_us += price
        rows = min(count, max(0, work.computed + count - work.rows_from))
        return replace(plan, reading=Chunk(work, work.computed, count, rows))

    def _affordable(self, plan: Plan, reading: Reading) -> int:
        """Tokens of it that this step can bear; one at least where it has the step to itself."""
        work, limits, cost = reading.work, self._scheduler.limits, self._scheduler.cost
        silent = max(0, work.rows_from - work.computed)  # tokens before the first whose row is wanted
        rows = min(limits.max_rows - sum(chunk.rows for chunk in plan.chunks), reading.rows.room)
        budget = self._saved if plan.chunks else max(cost.base, limits.step_us - cost.base)
        count = min(work.due, limits.max_tokens - plan.tokens, silent + rows, cost.affordable(budget, work.computed))
        each = int(reading.rows.microseconds)
        while count > silent and count > 0 and self._price(work, count) + (count - silent) * each > budget:
            count -= 1
        count = self._held(work, max(count, 0 if plan.chunks else 1))
        if plan.chunks and count:
            self._saved -= self._price(work, count)  # looking is paid for when it is done
        return count

    def _price(self, work: Work, count: int) -> int:
        """Microseconds of that many of its tokens, beside others."""
        return self._scheduler.cost.predict(count, pairs(work.computed, count)) - self._scheduler.cost.base

    def _held(self, work: Work, count: int) -> int:
        """As many of them as there are pages for, beside all that running requests are due."""
        while count and not self._spare(work, count):
            count //= 2
        return self._pages.room(work.id, count) if count else 0

    def _spare(self, work: Work, count: int) -> bool:
        needs = [self._pages.need(one.id, len(one.tokens)) for one in self._scheduler.running]
        needs.append(self._pages.need(work.id, work.computed + count))
        return all(map(ge, self._pages.available, map(sum, zip(*needs, strict=True))))

    def settle(self, plan: Plan, logits: Rows | CutawayError, milliseconds: float) -> None:
        """Hand out the rows of the plan's reading, which follow those of the requests. milliseconds: of the step."""
        if plan.reading is None:
            return
        chunk, reading = plan.reading, self._line[0]
        stream = reading.rows
        stream.computing_us += 0 if plan.chunks else int(1e3 * milliseconds)
        if isinstance(logits, CutawayError):
            self._release()
            stream.fail(logits)
            return
        first = sum(chunk.rows for chunk in plan.chunks)
        for row in range(first, first + chunk.rows):
            took = stream.put(logits.row(row))
            if plan.chunks:
                self._saved -= took
                stream.others_us += took
        work = chunk.work
        work.computed += chunk.count
        work.rows_from = max(work.rows_from, work.computed)
        self._pages.written(work.id, work.tokens, work.computed)

    def end(self, error: CutawayError | None = None) -> None:
        """The engine ends, because of `error` or because it is closed."""
        with self._gate:
            self._over = error or EngineError("it was closed")
        self._receive()
        while self._line:
            self._release()
            reading = self._line.popleft()
            if reading.rows.left:
                reading.rows.fail(self._over)
