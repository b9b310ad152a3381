"""What the rooms below say as Python warnings, brought to the caller who is concerned."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from threading import Lock
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_ONE_AT_A_TIME = Lock()  # Python keeps the state of warnings once per process


def heard(said: list[str], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns; what it warns of (a text that the vocabulary cannot hold, for one) is added to `said`."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = work(*args, **kwargs)
    said += [str(warning.message) for warning in caught]
    return result
