"""What loading a model took, measured: by the allocator of weights, pages and buffers, to the byte, and by the accounts
of C library and interpreter for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cutaway.native import _native
from cutaway.ops.process_memory import allocator, python_arenas

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes. weights: packed matrices. pages: of keys and values. scratch: values, activations, threads of a step."""

    weights: int = 0
    pages: int = 0
    scratch: int = 0

    def __sub__(self, before: Held) -> Held:
        return Held(self.weights - before.weights, self.pages - before.pages, self.scratch - before.scratch)

    @property
    def total(self) -> int:
        return self.weights + self.pages + self.scratch


def held_now() -> Held:
    """By the CPU backend, for all models of this process."""
    weights, pages, *scratch = _native.held_bytes()
    return Held(weights, pages, sum(scratch))


class Growth:
    """What loading takes, from when this is made on. What other threads take at the same time is in it."""

    def __init__(self) -> None:
        self._held = held_now()
        self.tokenizer: int | None = 0
        self.held = Held()

    def of_tokenizer(self, work: Callable[[], T]) -> T:
        """Do a part of loading the tokenizer."""
        before = _rest()
        done = work()
        after = _rest()
        known = self.tokenizer is not None and before is not None and after is not None
        self.tokenizer = (self.tokenizer or 0) + max(0, (after or 0) - (before or 0)) if known else None
        return done

    def model_is_there(self) -> None:
        self.held = held_now() - self._held


def _rest() -> int | None:
    """Bytes that C library and interpreter gave out."""
    used, arenas = allocator(), python_arenas()
    return None if used is None or arenas is None else used.used + arenas
