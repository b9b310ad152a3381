"""Backends by name. Each is imported when it is asked for."""

from __future__ import annotations

from cutaway.errors import ParameterError
from cutaway.ops.backend import Backend
from cutaway.ops.thread_count import choose_threads

BACKENDS = ("native", "reference")


def open_backend(name: str = "native", *, threads: int | None = None) -> Backend:
    """A backend that has loaded nothing yet.

    threads: how many work on a step, no more than may be used (thread_count.py); None: what the machine offers.

    Raises ParameterError for a name that is none, and what the backend's own settings raise.
    """
    if name not in BACKENDS:
        raise ParameterError(f"backend is {name!r}; it must be one of {', '.join(BACKENDS)}")
    if name == "reference":
        from cutaway.ops.reference_backend import ReferenceBackend

        return ReferenceBackend()
    from cutaway.ops.native.backend import NativeBackend

    return NativeBackend(threads=None if threads is None else choose_threads(threads))
