"""A load in virtual time: the engine's own scheduler over its own page ledger, and a clock that a cost model advances.

No model runs and nothing is measured: a step takes the time that the cost model predicts for its tokens. So a rule of
the scheduler can be evaluated over hours of load in seconds, always with the same result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cutaway.engine.scheduler import Scheduler
from cutaway.engine.step_plan import Plan, Work


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: tokens of its prompt and of its answer. after: microseconds of virtual time before which it does not
    arrive. If clients send one request after another, it arrives when one of them is free."""

    prompt: int
    answer: int
    after: int = 0


@dataclass(slots=True)
class Served:
    """The course of a request. Microseconds of virtual time."""

    ask: Ask
    arrived: int
    tokens: list[int] = field(default_factory=list)  # times of the answer's tokens

    @property
    def wait(self) -> int:
        """Time to the first token."""
        return self.tokens[0] - self.arrived

    @property
    def gaps(self) -> list[int]:
        """Times between two tokens."""
        return [later - earlier for earlier, later in zip(self.tokens, self.tokens[1:], strict=False)]


class Clock:
    """One run. clients: their number; each sends its next request when its last one has ended. None: every request
    arrives at its own time."""

    def __init__(self, scheduler: Scheduler, asks: Sequence[Ask], clients: int | None = None) -> None:
        self.scheduler = scheduler
        self.now = 0
        self._asks = deque(asks if clients else sorted(asks, key=lambda ask: ask.after))
        self._free = clients
        self._served: list[Served] = []
        self._running: dict[int, Served] = {}

    def run(self, each: Callable[[Plan], None] | None = None) -> list[Served]:
        """To the end of the last answer. each: sees every step's plan before it is settled."""
        while self._arrive():
            plan = self.scheduler.plan()
            assert plan.chunks, "requests wait and nothing can run"
            if each is not None:
                each(plan)
            self.now += self.scheduler.cost.predict(plan.tokens, plan.pairs)
            self._settle(plan)
        return self._served

    def _arrive(self) -> bool:
        if not self._running and self._asks and self._free != 0:
            self.now = max(self.now, self._asks[0].after)  # no client is active: the clock jumps
        while self._asks and self._asks[0].after <= self.now and self._free != 0:
            ask = self._asks.popleft()
            self._free = None if self._free is None else self._free - 1
            at = len(self._served)
            self._served.append(Served(ask, self.now if self._free is not None else ask.after))
            self._running[at] = self._served[at]
            first = at * 1_000_000  # no two prompts begin alike
            self.scheduler.add(Work(at, list(range(first, first + ask.prompt)), ask.prompt - 1))
        return bool(self._running)

    def _settle(self, plan: Plan) -> None:
        for chunk in plan.chunks:
            work = chunk.work
            self.scheduler.advance(chunk)
            if work.due:
                continue
            served = self._running[work.id]
            served.tokens.append(self.now)
            work.tokens.append(0)
            if len(served.tokens) == served.ask.answer:
                self.scheduler.remove(work)
                del self._running[work.id]
                self._free = None if self._free is None else self._free + 1
