"""The backends by name. Each is imported on first use."""

from __future__ import annotations

from cutaway.errors import ParameterError
from cutaway.ops.backend import Backend
from cutaway.ops.thread_count import choose_threads

BACKENDS = ("native", "reference")


def open_backend(name: str = "native", *, threads: int | None = None) -> Backend:
    """A backend that has loaded nothing yet.

    threads: the number that take part in a step, limited to those that may be used (thread_count.py); None: the
    machine's.

    Raises ParameterError for an unknown name, and the errors of the backend's own settings.
    """
    if name not in BACKENDS:
        raise ParameterError(f"backend is {name!r}; it must be one of {', '.join(BACKENDS)}")
    if name == "reference":
        from cutaway.ops.reference_backend import ReferenceBackend

        return ReferenceBackend()
    from cutaway.ops.native.backend import NativeBackend

    return NativeBackend(threads=None if threads is None else choose_threads(threads))
