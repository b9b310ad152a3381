"""The input of a request in the terms that all APIs share, and its preparation for the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cutaway.assemble import Engine
from cutaway.engine import Shorten
from cutaway.sampling import SamplingParams
from cutaway.server.generation.output_parser import Reader
from cutaway.server.models.served_model import Served


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared input. prompts: token ids. reader: makes the output parser of an answer.

    shorten: one function for each prompt whose answer continues when the context is full; empty: such answers end.
    clock: the time that a template saw, in seconds since 1970; None: it read none.
    """

    prompts: Sequence[list[int]]
    params: SamplingParams
    reader: Callable[[], Reader] = Reader
    warnings: tuple[str, ...] = ()
    shorten: Sequence[Shorten | None] = ()
    clock: float | None = None


class Input(Protocol):
    """An input: messages, texts, or the two sides of a gap."""

    def prepare(self, served: Served, engine: Engine, params: SamplingParams) -> Prepared:
        """Prepare the input. Takes milliseconds, or more with long inputs, so it runs in a thread. Raises CutawayError,
        ApiError."""
        ...
