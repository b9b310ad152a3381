"""Passes Python warnings of the lower rooms on to the caller whose request caused them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from threading import Lock, get_ident
from typing import ParamSpec, TextIO, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_ONE_AT_A_TIME = Lock()  # Python keeps the state of warnings once per process


def heard(said: list[str], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work`. Its warnings (about a text that the vocabulary cannot hold, for example) are added to
    `said`.

    Only warnings of this thread are caught, because a warning of another thread belongs to another caller.
    """
    mine = get_ident()
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        before = warnings.showwarning

        def hear(
            message: Warning | str, category: type[Warning], filename: str, lineno: int,
            file: TextIO | None = None, line: str | None = None,
        ) -> None:  # fmt: skip
            if get_ident() == mine:
                said.append(str(message))
            else:
                before(message, category, filename, lineno, file, line)

        warnings.showwarning = hear
        warnings.simplefilter("always", UserWarning)
        return work(*args, **kwargs)
