"""The engine: one thread, the only writer of everything below it, which turns plans into steps and rows into tokens.

Other threads submit and cancel through its inbox; events return through the queue of each request. In every case (a
stop, a cancel, NaN logits, an exception in the model, a closed engine) an accepted request ends with exactly one
`Finished`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from time import monotonic
from types import TracebackType
from typing import Self

from cutaway.cache import GroupSize, PageTables
from cutaway.engine.admission import Door
from cutaway.engine.batch import build_step
from cutaway.engine.cost import CostModel
from cutaway.engine.draw import draw_rows
from cutaway.engine.events import Event
from cutaway.engine.failure import as_ours
from cutaway.engine.full_context import slide
from cutaway.engine.inbox import Call, Message, left_over
from cutaway.engine.preemptions import KEPT, NotedPreemption, note_preemptions
from cutaway.engine.readings import Readings
from cutaway.engine.request import Chosen, Request, Sink, Stream
from cutaway.engine.scheduler import Limits, Scheduler
from cutaway.engine.sliding_context import Shorten
from cutaway.engine.step_plan import Chunk, Plan
from cutaway.engine.trace_records import Laps, prefix_record, step_record, token_record, watched
from cutaway.errors import CutawayError, EngineError
from cutaway.ops.protocol import KVLayout, Step
from cutaway.ops.rows import Rows
from cutaway.sampling import SamplingParams, StopKind, StopReason
from cutaway.text import Tokenizer
from cutaway.trace import NULL, Record, Recorder, with_wants

StepFunction = Callable[[Step], Rows]
Outcome = tuple[Request, Chunk, list[Chosen], CutawayError | None]
"""The result of a chunk's rows: no token (the prompt is not complete), one, or several (accepted drafts), and possibly
an error that ends the request."""


class EngineCore:
    """Requests in, events out. `start` gives it a thread; without one, the thread that calls `step` is the engine's.

    step_function: computes the rows of logits of a step, valid until its next call. layout: the pages of its cache.
    vocab: the number of token ids and of columns of the logits. context: tokens of prompt and answer together; lower if
    the pages hold fewer. cost: the predicted cost of a step before any is measured. sharing: reuse cached prefixes.
    speculate: draft tokens of answers where that pays, unless the parameters say otherwise; the answer is the same.
    """

    def __init__(
        self, step_function: StepFunction, layout: KVLayout, tokenizer: Tokenizer, *,
        vocab: int, context: int, limits: Limits | None = None, cost: CostModel | None = None,
        recorder: Recorder = NULL, sharing: bool = True, speculate: bool = False, hashing: bool = False,
    ) -> None:
        groups = [GroupSize(group.window, group.pages) for group in layout.groups]
        self.pages = PageTables(groups, layout.page_size, sharing=sharing)
        self.context = min(context, self.pages.capacity)
        self.limits = limits or Limits()
        self.cost = cost or CostModel()
        self.scheduler = Scheduler(self.pages, self.cost, self.limits)
        self.steps, self.busy = 0, 0.0  # seconds spent in the step function
        self.preempted: deque[NotedPreemption] = deque(maxlen=KEPT)  # the latest
        self.preemptions = self.drafted = self.accepted = 0
        self._step_function, self._tokenizer = step_function, tokenizer
        self._door = Door(tokenizer, vocab, self.context, speculate, hashing)
        self.counts, self._recorder = self._door.counts, with_wants(recorder)
        self._requests: dict[int, Request] = {}
        self.observe_step: Callable[[Plan, Laps], None] | None = None  # while it is watched: see watch.py
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        wake = partial(self._inbox.put, ("wake", ()))  # not a lambda: a circle would keep the engine's memory
        self.readings = Readings(self.scheduler, vocab=vocab, context=self.context, wake=wake)
        self._gate, self._closed = Lock(), False  # closed after the last submission
        self._broken: BaseException | None = None
        self._thread: Thread | None = None

    # --- from any thread --------------------------------------------------------------------------------------------
    def submit(
        self, prompt: Sequence[int], params: SamplingParams, *, seed: int | None = None, key: Hashable = None,
        sink: Sink | None = None, name: str | None = None, shorten: Shorten | None = None,
    ) -> Stream:
        """Accept a prompt (token ids) and return the stream of its events.

        seed: overrides that of the parameters; if both are None one is drawn and reported in `Finished`. key: what the
        keys and values depend on besides the tokens (an adapter, a salt); prefixes are shared only within the same key.
        sink: receives the events in the engine's thread, instead of the stream's queue. name: the caller's id of the
        prompt, for the recorder; None: a number. shorten: shortens the prompt when the context is full, so that the
        answer continues; None: the answer ends. Raises ParameterError, ContextExceededError, and EngineError if the
        engine is closed.
        """
        self._door.prepare(params)  # outside the lock, which others wait for
        with self._gate:
            if self._closed:
                why = f"it failed: {self._broken!r}" if self._broken else "it was closed"
                raise EngineError(f"the engine accepts no more requests; {why}") from self._broken
            events: SimpleQueue[Event] = SimpleQueue()
            requests = tuple(self._door.requests(prompt, params, seed, key, sink or events, name, shorten))
            self._inbox.put(("submit", requests))
        return Stream(requests, self.cancel, events)

    def cancel(self, request: Request) -> None:
        """End a request at the next step boundary. Has no effect if it has ended."""
        self._inbox.put(("cancel", (request,)))

    def start(self) -> Self:
        """Start the engine's thread."""
        assert self._thread is None
        self._thread = Thread(target=self._run, name="cutaway-engine", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """End every request ("cancelled") after the running step, then the thread."""
        with self._gate:
            self._closed = True
            self._inbox.put(("close", ()))
        if self._thread is None:
            self._end_all()
        elif self._thread is not current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- the engine's thread only -----------------------------------------------------------------------------------
    def _run(self) -> None:
        """The thread. An exception that leaves a step is a bug: every request is ended with it, and none hangs."""
        try:
            while not self._closed:
                self._receive(wait=not (self._requests or self.readings.due))
                self.step()
        except BaseException as error:
            self._broken = error
        finally:
            with self._gate:
                self._closed = True
            self._end_all()

    def step(self) -> bool:
        """plan -> batch -> logits -> choices -> events. Returns whether there is more to do."""
        self._receive()
        laps = Laps()
        plan = self._plan(laps)
        logits = self._compute(plan, laps)
        choices = self._choose(plan, logits, laps)
        accepted = self._settle(choices)
        self.readings.settle(plan, logits, laps.milliseconds.get("forward", 0.0))
        self._record_step(plan, choices, accepted, laps)
        return bool(self._requests) or self.readings.due

    def _receive(self, wait: bool = False) -> None:
        """Process the inbox, with `wait` after waiting for a message. End requests whose time is over."""
        while wait or not self._inbox.empty():
            word, requests = self._inbox.get()
            wait = False
            if isinstance(word, Call):
                word.do()
            for request in requests:
                if word == "submit":
                    self._requests[request.id] = request
                    self.scheduler.add(request.work)
                else:
                    self._end(request, "cancelled")
        now = monotonic()
        for request in [request for request in self._requests.values() if request.out_of_time(now)]:
            self._end(request, "time")

    def _plan(self, laps: Laps) -> Plan:
        running = self.scheduler.running
        for work in running:
            self._requests[work.id].draft(self.cost, len(running))
        self.readings.make_way()
        plan = self.readings.beside(self.scheduler.plan())
        for work in plan.admitted:
            request, broke = self._requests[work.id], self.pages.broke(work.id)
            request.admitted(broke)
            if self._recorder.wants("prefix", request.name):
                self._record(prefix_record(request, broke, self.steps + 1))
        self.preemptions += note_preemptions(self.preempted, plan, self._requests, self.steps + 1)
        assert plan.chunks or not self._requests, "requests wait and nothing can run"
        laps("plan")
        return plan

    def _compute(self, plan: Plan, laps: Laps) -> Rows | CutawayError:
        """The logits of the step, or an error, which ends every request of the step."""
        if not plan.batch:
            return EngineError("an empty step")
        try:
            step = build_step(plan, self.pages)
            laps("batch")
            logits = self._step_function(step)
            milliseconds = laps("forward")
            assert len(logits) == len(step.rows), f"{len(logits)} rows of logits for {len(step.rows)} wanted"
        except Exception as error:
            return as_ours(error, "the model failed in this step")
        self.steps += 1
        self.busy += milliseconds / 1_000
        self.drafted += plan.drafted
        self.cost.observe(plan.tokens, plan.pairs, milliseconds * 1_000)
        return logits

    def _choose(self, plan: Plan, logits: Rows | CutawayError, laps: Laps) -> list[Outcome]:
        """The result of each chunk's rows. If the rows or the stages of a request fail, only that request fails."""
        outcomes: list[Outcome] = []
        row = 0
        drawn: dict[int, int] = {}
        seen = watched(self._recorder, plan, self._requests)
        if len(plan.chunks) > 1 and not isinstance(logits, CutawayError):
            drawn = draw_rows(plan, self._requests, seen, logits)
        for chunk in plan.chunks:
            request = self._requests[chunk.work.id]
            chosen: list[Chosen] = []
            failed = None
            try:
                if isinstance(logits, CutawayError):
                    raise logits
                rows, last = [logits.row(row + i) for i in range(chunk.rows)], drawn.get(row + chunk.rows - 1)
                for one in request.choose(chunk, rows, self._recorder if request.id in seen else NULL, last):
                    chosen.append(one)  # each is kept if the next one fails
            except Exception as error:
                failed = as_ours(error, "no token could be chosen")
            outcomes.append((request, chunk, chosen, failed))
            row += chunk.rows
        laps("sample")
        return outcomes

    def _settle(self, outcomes: list[Outcome]) -> int:
        """Record what was computed, send the tokens, and end requests that are complete. Returns the accepted
        drafts."""
        before = self.accepted
        for request, chunk, chosen, failed in outcomes:
            for one in chosen:
                self._take(request, one)
            if chosen or failed is None:
                accepted = max(0, len(chosen) - 1)
                self.accepted += accepted
                self.scheduler.advance(chunk, accepted)
                request.learn(chosen, chunk.drafted)
            if failed is not None:
                self._end(request, "error", failed)
            elif chosen and (stop := chosen[-1].stop) is not None:
                self._finish(request, stop)
            elif request.shorten is not None and len(request.work.tokens) >= self.context:
                if (end := slide(request, self.scheduler, self.context)) is not None:
                    self._finish(request, *end)
            elif not request.work.due:  # max_tokens 0: only the prompt is computed
                self._end(request, "length")
        return self.accepted - before

    def _take(self, request: Request, chosen: Chosen) -> None:
        request.take(chosen)
        if self._recorder.wants("token", request.name):
            self._record(token_record(request, chosen.choice, self.steps, self._tokenizer))

    def _end(self, request: Request, kind: StopKind, error: CutawayError | None = None) -> None:
        """End a request for another reason than one of its tokens."""
        self._finish(request, StopReason(kind, None, request.outputs), error)

    def _finish(self, request: Request, stop: StopReason, error: CutawayError | None = None) -> None:
        """End a request: give its pages back, then send its last event. Has no effect on a request that has ended."""
        if self._requests.pop(request.id, None) is not None:
            request.notes.pages = sum(self.pages.held(request.id)) if request.id in self.pages else 0
            self.scheduler.remove(request.work)
            request.finish(stop, error)

    def _end_all(self) -> None:
        """Accept no more requests, and end all that remain, including those in the inbox."""
        error = as_ours(self._broken, "the engine failed") if self._broken else None
        self._requests.update({request.id: request for request in left_over(self._inbox, error)})
        for request in list(self._requests.values()):
            if not request.finished:
                request.finish(StopReason("error" if error else "cancelled", None, request.outputs), error)
        self._requests.clear()
        self.readings.end(error)

    def _record_step(self, plan: Plan, outcomes: list[Outcome], accepted: int, laps: Laps) -> None:
        if self.observe_step is not None:
            self.observe_step(plan, laps)
        if plan.chunks and self._recorder.wants("step"):
            requests = [outcome[0] for outcome in outcomes]
            self._record(step_record(self.steps, plan, requests, accepted, laps, self.pages))

    def _record(self, record: Record) -> None:
        """Disable a recorder that fails (for example because the disk is full), with a warning for every request. No
        request fails because of it."""
        try:
            self._recorder.record(record)
        except Exception as error:
            self._recorder = NULL
            for request in self._requests.values():
                request.warnings.append(f"the recorder failed and was disabled: {error!r}")
