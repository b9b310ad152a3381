"""The input of a request, whatever its API, and what becomes of it before the engine has it."""

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
    """Ready for the engine. prompts: token ids. reader: makes what reads one answer.

    shorten: one for each prompt whose answer goes on when the context is full; empty: such answers end.
    """

    prompts: Sequence[list[int]]
    params: SamplingParams
    reader: Callable[[], Reader] = Reader
    warnings: tuple[str, ...] = ()
    shorten: Sequence[Shorten | None] = ()


class Input(Protocol):
    """Messages, texts, the two sides of a gap."""

    def prepare(self, served: Served, engine: Engine, params: SamplingParams) -> Prepared:
        """Takes milliseconds, with long inputs more: for a thread. Raises CutawayError, ApiError."""
        ...
