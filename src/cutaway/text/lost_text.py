"""Warnings about parts of a text that do not reach the model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TextLossWarning(UserWarning):
    """A part of a text cannot be expressed with a vocabulary, or is not shown by a template."""


_known: ContextVar[bool] = ContextVar("losses_known", default=False)


def warn_of_loss(what: str, stacklevel: int) -> None:
    """stacklevel: as for `warnings.warn`, counted from the caller of this function."""
    if not _known.get():
        warnings.warn(what, TextLossWarning, stacklevel=stacklevel + 1)


@contextmanager
def losses_known() -> Iterator[None]:
    """Suppresses these warnings within the block, because they were given when the same text was first processed.
    Affects this thread only."""
    token = _known.set(True)
    try:
        yield
    finally:
        _known.reset(token)
