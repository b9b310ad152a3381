"""What of a text does not reach the model, as warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TextLossWarning(UserWarning):
    """Part of a text cannot be written with a vocabulary, or is not shown by a template."""


_known: ContextVar[bool] = ContextVar("losses_known", default=False)


def warn_of_loss(what: str, stacklevel: int) -> None:
    """stacklevel: as `warnings.warn` takes it, from the caller of this function."""
    if not _known.get():
        warnings.warn(what, TextLossWarning, stacklevel=stacklevel + 1)


@contextmanager
def losses_known() -> Iterator[None]:
    """Inside, nothing is warned of: it was when the same text was first read. Of this thread only."""
    token = _known.set(True)
    try:
        yield
    finally:
        _known.reset(token)
