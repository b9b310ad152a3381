"""The order in which an even share would complete the prompts. Integers only.

If every prompt had the same share of each step (processor sharing), none would be favoured, but each would take almost
as long as all together. So the even share is only computed beside the real steps, and the prompts are computed one
after another in the order in which it would complete them (fair sojourn protocol: Friedman and Henderson, "Fairness and
efficiency in web server protocols", SIGMETRICS 2003). With the same tokens per step, no prompt is completed later than
with an even share: when the even share has completed one, it has computed that prompt and all that it completed before,
and the real steps have computed exactly these first.

Computation: the clock counts the tokens that an even share has computed of each unfinished prompt since it began. A
prompt of `due` tokens that arrives at clock c is completed at c + due, whatever arrives later. So its place in the
order never changes, and later prompts precede it only if they end before that time: none starves.
"""

from __future__ import annotations

from bisect import bisect_left, insort


class EvenShare:
    """The unfinished prompts of an even share. The real steps may have completed some of them long before.

    most: the maximum number of prompts that slow the clock down. A request that is cancelled after it was computed in
    advance leaves other prompts unfinished here whose tokens were computed already; however many there are, they must
    not stop the clock.
    """

    def __init__(self, most: int) -> None:
        self.clock = 0
        self._most = most
        self._ends: list[int] = []  # in order
        self._rest = 0  # tokens, too few to give every prompt one

    @property
    def prompts(self) -> int:
        return min(len(self._ends), self._most)

    def enter(self, due: int) -> int:
        """A prompt with `due` tokens begins. Returns the clock at which it will be completed."""
        insort(self._ends, self.clock + due)
        return self.clock + due

    def leave(self, end: int) -> None:
        """The prompt that would be completed at `end` is cancelled. Has no effect if it was completed."""
        at = bisect_left(self._ends, end)
        if at < len(self._ends) and self._ends[at] == end:
            del self._ends[at]

    def spend(self, tokens: int) -> None:
        """`tokens` tokens of prompts were computed; the even share distributes them."""
        tokens += self._rest
        while self._ends and tokens >= self.prompts:
            shared = min(self._ends[0] - self.clock, tokens // self.prompts)
            tokens -= shared * self.prompts
            self.clock += shared
            while self._ends and self._ends[0] <= self.clock:
                del self._ends[0]
        self._rest = tokens if self._ends else 0

    def clear(self) -> None:
        """No prompt is unfinished: the remaining prompts were computed in advance."""
        self._ends.clear()
        self._rest = 0
