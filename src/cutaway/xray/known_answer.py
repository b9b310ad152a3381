"""An answer that has ended, by what cannot be computed again: all that an account of it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutaway.errors import RecordError
from cutaway.sampling import SamplingParams, StopReason


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of an answer behind one prompt. start, end: its tokens of the answer, from 0; prompt: what stood before
    all of the answer then."""

    prompt: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """prompt, answer: token ids, the answer's with the one that ended it. params, seed, choice: how it was chosen.

    stop: why it ended; None: unknown. slides: (tokens of the answer before it, the prompt from then on),
    in order, where the context slid. own_stages: stages that were functions, and that the record could not hold.
    warnings: that went with it.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    params: SamplingParams
    seed: int
    choice: int = 0
    stop: StopReason | None = None
    slides: tuple[tuple[int, tuple[int, ...]], ...] = ()
    own_stages: int = 0
    warnings: tuple[str, ...] = ()

    def check_stages(self) -> None:
        """Raises RecordError where the answer cannot be made again, since stages of it are not known."""
        if self.own_stages:
            raise RecordError("this request had stages of its own, functions that no record can hold")

    def passages(self) -> Iterator[Passage]:
        """The answer's parts, each behind the prompt that it was computed behind."""
        prompt, start = self.prompt, 0
        for after, shorter in self.slides:
            if start < after <= len(self.answer):
                yield Passage(prompt, start, after)
                start = after
            prompt = shorter
        if start < len(self.answer):
            yield Passage(prompt, start, len(self.answer))
