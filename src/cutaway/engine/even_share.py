"""In which order an even share would finish the prompts. Integers only.

Were every prompt given the same share of each step (processor sharing), nobody would be favoured; but all would wait
for nearly all. So the even share is only computed, beside the real steps, and the prompts are read one after another
in the order in which it would finish them (fair sojourn protocol: Friedman and Henderson, "Fairness and efficiency in
web server protocols", SIGMETRICS 2003). With the same tokens a step, no prompt is done later than by an even share:
when the even share has finished one, it has read that prompt and all that it finished before, and exactly these, no
others, are what the real steps have read first.

How it is computed: the clock counts the tokens that an even share has read of each unfinished prompt since it began.
A prompt of `due` tokens that comes at clock c is finished at c + due, whoever comes later; so its place in the order
never changes, and later ones go before it only as long as they end before that: nobody starves.
"""

from __future__ import annotations

from bisect import bisect_left, insort


class EvenShare:
    """The unfinished prompts of an even share. Some of them the real steps have long finished.

    most: the clock goes on as if there were no more than that. Who cancels a request that was read in advance leaves
    others unfinished here whose tokens were read already; however many there are, they must not stop the clock.
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
        """A prompt with so many tokens to read begins. Returns the clock at which it will be finished."""
        insort(self._ends, self.clock + due)
        return self.clock + due

    def leave(self, end: int) -> None:
        """A prompt that would be finished then is not read any more. Harmless if it was finished."""
        at = bisect_left(self._ends, end)
        if at < len(self._ends) and self._ends[at] == end:
            del self._ends[at]

    def spend(self, tokens: int) -> None:
        """So many tokens of prompts were read: the even share deals them out."""
        tokens += self._rest
        while self._ends and tokens >= self.prompts:
            shared = min(self._ends[0] - self.clock, tokens // self.prompts)
            tokens -= shared * self.prompts
            self.clock += shared
            while self._ends and self._ends[0] <= self.clock:
                del self._ends[0]
        self._rest = tokens if self._ends else 0

    def clear(self) -> None:
        """Nothing is being read: what is left was given in advance."""
        self._ends.clear()
        self._rest = 0
