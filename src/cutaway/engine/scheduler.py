"""Decides which requests compute how many tokens in the next step. Integers only; there are no phases.

A request is due `total - computed` tokens: its prompt at first, then one token per step (and drafts that may follow
it), and everything again after a preemption. Each step has a budget of predicted microseconds, tokens and rows. Every
answer gets its token in every step. Prompts get the time that answers leave, but at least an even share: for each
prompt the time that a token of an answer takes alone, so that other requests slow down a prompt no more than an answer.
Half of that time goes to the prompt that an even share would complete first (even_share.py), so that none takes longer
than about twice its time with an even share. The rest goes to the shortest prompt, which gives the least mean wait. If
a prompt is completed, the step is not extended for the others, so that its first token is not delayed.

Pages go to the oldest request first. When there are none left, the youngest running request gives back all of its pages
and is recomputed later, with the same bits as in any other schedule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import ge

from cutaway.cache import PageTables
from cutaway.engine.cost import CostModel, pairs
from cutaway.engine.even_share import EvenShare
from cutaway.engine.step_plan import Chunk, Plan, Preemption, Work


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one step: requests, tokens, rows, and its predicted time: step_us if it completes a prompt, long_us
    otherwise (weights are read once per step, so long steps prefill faster). A new request waits for the rest of a
    long step and then for one of its own. With many answers, prompts make a step longer."""

    max_requests: int = 16
    max_tokens: int = 512
    max_rows: int = 64
    step_us: int = 200_000
    long_us: int = 500_000

    def __post_init__(self) -> None:
        assert 0 < self.max_requests <= min(self.max_tokens, self.max_rows), "a running request needs a token and a row"


class Scheduler:
    """Continuous batching over one page ledger. Called only by the engine's loop."""

    def __init__(self, pages: PageTables, cost: CostModel, limits: Limits) -> None:
        self.pages = pages
        self.cost = cost
        self.limits = limits
        self.waiting: deque[Work] = deque()
        self.running: list[Work] = []  # oldest first
        self._even = EvenShare(4 * limits.max_requests)

    def add(self, work: Work) -> None:
        self.waiting.append(work)

    def remove(self, work: Work) -> None:
        """The request has ended for any reason: its pages are given back."""
        if work in self.running:
            self.running.remove(work)
            self._even.leave(work.turn)
            self.pages.close(work.id, work.tokens)
        else:
            self.waiting.remove(work)

    def plan(self) -> Plan:
        """The next step; its pages are held when this returns. Empty only if there is no request."""
        admitted = self._admit()
        drafting = [work for work in self.running if work.drafts]
        if drafting and not self.fit(self.running, drafts=True):  # a draft takes no page that another request needs
            for work in drafting:
                work.drafts = []
        chunks, preemptions = self._place(self._grants())
        self._even.spend(sum(chunk.count for chunk in chunks if chunk.work.reads))
        return Plan(chunks, admitted, preemptions)

    def advance(self, chunk: Chunk, accepted: int = 0) -> None:
        """The keys and values of the chunk are written, and its rows were processed. accepted: drafts that are tokens
        now."""
        work = chunk.work
        work.computed += chunk.count - chunk.drafted + accepted
        work.drafts = []
        work.rows_from = max(work.rows_from, work.computed)
        self.pages.written(work.id, work.tokens, work.computed)

    def _admit(self) -> tuple[Work, ...]:
        """Move requests from waiting to running, in order, as long as there are pages for everything that is due.

        A request whose next pages another one is computing (choices of one prompt, a system prompt) lets others go
        first.
        """
        admitted: list[Work] = []
        for work in list(self.waiting):
            if len(self.running) == self.limits.max_requests:
                break
            if any(self._foreruns(other, work) for other in self.running):
                continue
            if not self._open(work):
                break
            self.waiting.remove(work)
            self.running.append(work)
            work.turn = self._even.enter(work.due)
            admitted.append(work)
        return tuple(admitted)

    def _foreruns(self, other: Work, work: Work) -> bool:
        """Whether `other` will soon have written at least two pages that `work` can reuse."""
        if not self.pages.sharing or other.key != work.key or other.computed >= work.rows_from:
            return False
        end = (other.computed // self.pages.page_size + 2) * self.pages.page_size
        return end <= min(work.rows_from, other.prompt) and other.tokens[:end] == work.tokens[:end]

    def _open(self, work: Work) -> bool:
        """Reuse the request's cached prefix, if there are pages for the rest beside those that the others need."""
        work.computed = self.pages.open(work.id, work.tokens, limit=work.rows_from, key=work.key)
        if self.fit([*self.running, work]):
            return True
        self.pages.close(work.id, work.tokens)
        work.computed = 0
        return False

    def fit(self, works: Sequence[Work], drafts: bool = False) -> bool:
        """Whether there are pages for all that these requests are due, with or without their drafts."""
        needs = [self.pages.need(work.id, len(work.tokens) + drafts * len(work.drafts)) for work in works]
        return all(map(ge, self.pages.available, map(sum, zip(*needs, strict=True))))

    def _grants(self) -> dict[int, int]:
        """Tokens that running requests may compute: first answers, then prompts in their order. A prompt gets none if
        only one token would fit, because a single token costs more than in a chunk."""
        if all(work.answers_one for work in self.running):
            self._even.clear()
            return {work.id: 1 for work in self.running}  # as the cost of the following would be
        tokens, rows = self.limits.max_tokens, self.limits.max_rows
        quick, time = self._times()
        whole = self.cost.base + time
        grants: dict[int, int] = {}
        prompts = 0  # microseconds that an even share gives them
        head = min((work for work in self.running if work.reads), key=lambda work: work.turn, default=None)
        kept = 0  # of the time, for the first prompt in the order
        for rank, work in enumerate(sorted(self.running, key=lambda work: (work.reads, work.due))):
            sharers = len(self.running) - rank
            if work.reads and not prompts:
                prompts = self._share(whole - time)
                quick, time = max(quick, prompts), max(time, prompts)
                kept = quick // 2
            share, kept = (max(time, kept), 0) if work is head else (time - kept, kept)
            most = min(work.due, tokens - (sharers - 1), self.cost.affordable(share, work.computed))
            silent = max(0, work.rows_from - work.computed)  # tokens before the first row of logits
            least = work is head or not work.reads  # answers continue
            count = grants[work.id] = max(int(least), min(most, silent + rows - (sharers - 1)))
            tokens, rows = tokens - count, rows - max(0, count - silent)
            spent = self.cost.predict(count, pairs(work.computed, count)) - self.cost.base
            quick, time = quick - spent, time - spent
            if work.reads and 1 < count == work.due:  # this step gives its first token
                time = min(time, quick)
        return grants

    def _share(self, others: int) -> int:
        """Microseconds that an even share gives the prompts: for each the time of a token of an answer alone, but no
        more than the rest of the step takes, or twice long_us. others: microseconds of the step without the prompts."""
        even = max(1, self._even.prompts) * self.cost.predict(1, 1)
        return min(even, max(others, 2 * self.limits.long_us))

    def _times(self) -> tuple[int, int]:
        """Microseconds for tokens, in a step that completes a prompt and in another. At least the time for reading the
        weights."""
        base = self.cost.base
        return max(self.limits.step_us - base, base), max(self.limits.long_us - base, base)

    def _place(self, grants: dict[int, int]) -> tuple[tuple[Chunk, ...], tuple[Preemption, ...]]:
        """Hold pages for the grants, oldest request first, preempting the youngest."""
        chunks: list[Chunk] = []
        preemptions: list[Preemption] = []
        at = 0
        while at < len(self.running):
            work = self.running[at]
            granted = grants[work.id]
            count = self.pages.room(work.id, granted)
            while granted and not count and self.running[-1] is not work:
                preemptions.append(self._preempt(work, granted))
                count = self.pages.room(work.id, granted)
            if count:
                self.pages.extend(work.id, count)
                end = work.computed + count
                rows, drafted = min(count, max(0, end - work.rows_from)), min(count, max(0, end - len(work.tokens)))
                chunks.append(Chunk(work, work.computed, count, rows, drafted))
            at += 1
        return tuple(chunks), tuple(preemptions)

    def _preempt(self, gainer: Work, granted: int) -> Preemption:
        """Take the pages of the youngest running request for the tokens of another; it waits at the head of the
        queue."""
        work = self.running.pop()
        cause = Preemption.of(work, gainer, granted, self.pages)
        self._even.leave(work.turn)
        self.pages.close(work.id, work.tokens)
        work.computed, work.drafts = 0, []
        self.waiting.appendleft(work)
        return cause
