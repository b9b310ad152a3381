"""What only the engine's thread knows of an answer and what cannot be computed again: times, chunks, pages.

Taken of every answer, so it is small: some twelve bytes a token, and half a microsecond.
"""

from __future__ import annotations

from array import array
from math import exp
from time import monotonic

from cutaway.engine.step_plan import Chunk
from cutaway.ops.protocol import F32
from cutaway.sampling import Choice, hash_row

UNITS = 100_000
"""Of the times, in a second: ten microseconds each, so that 32 bits hold twelve hours."""
_LAST = 2**32 - 1


class Notes:
    """Of one answer; written by the engine's thread until its `Finished` is out.

    submitted: on the monotonic clock. tokens: of the answer; times: when each was chosen, in units since then. ranks,
    probabilities: where the sampler had them: the rank in the model's distribution, the probability in the one drawn
    from; 0 and below 0 where not; empty where it never had one. hashes: of the rows that gave the tokens, if wanted.
    chunks: (start, tokens, time) of what was read before a token came, the prompt and what was computed again. slides:
    (tokens of the answer before, the prompt from then on). pages: held when it ended, in all groups of layers.
    """

    __slots__ = (
        "chunks", "hashes", "hashing", "pages", "probabilities", "ranks", "slides", "submitted", "times", "tokens",
    )  # fmt: skip

    def __init__(self, submitted: float, *, hashing: bool = False) -> None:
        self.submitted = submitted
        self.hashing = hashing
        self.tokens = array("i")
        self.times = array("I")
        self.ranks = array("i")
        self.probabilities = array("d")
        self.hashes = array("Q")
        self.chunks: list[tuple[int, int, int]] = []
        self.slides: list[tuple[int, tuple[int, ...]]] = []
        self.pages = 0

    def without_ids(self) -> Notes:
        """The same without token ids, which tell the text."""
        bare = Notes(self.submitted, hashing=self.hashing)
        for name in ("times", "ranks", "probabilities", "hashes", "chunks", "pages"):
            setattr(bare, name, getattr(self, name))
        bare.slides = [(after, ()) for after, _ in self.slides]
        return bare

    def _now(self) -> int:
        return min(int((monotonic() - self.submitted) * UNITS), _LAST)

    def computed(self, chunk: Chunk) -> None:
        """The step of this chunk has ended. One that is only the last token and drafts is no chunk of a prompt."""
        if not self.tokens or chunk.count - chunk.drafted > 1:
            self.chunks.append((chunk.start, chunk.count - chunk.drafted, self._now()))

    def row(self, row: F32) -> None:
        """It gave a token."""
        if self.hashing:
            self.hashes.append(hash_row(row))

    def token(self, choice: Choice, *, processed: bool) -> None:
        """It was chosen. processed: its log-probability is of the distribution drawn from."""
        self.tokens.append(choice.token)
        self.times.append(self._now())
        if choice.rank is not None:
            probability = choice.after
            if processed and choice.logprob is not None:
                probability = exp(choice.logprob)
            self._more(0 if processed else choice.rank, -1.0 if probability is None else probability)

    def _more(self, rank: int, probability: float) -> None:
        """What the sampler knew of the last token."""
        missing = len(self.tokens) - 1 - len(self.ranks)
        self.ranks.extend([0] * missing)
        self.probabilities.extend([-1.0] * missing)
        self.ranks.append(rank)
        self.probabilities.append(min(probability, 1.0))
