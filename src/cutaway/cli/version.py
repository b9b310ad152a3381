"""`cutaway version`."""

from __future__ import annotations


def version() -> None:
    """Print the version and the platform that it runs on."""
    import platform

    import cutaway
    from cutaway.ops.backends import open_backend

    backend = open_backend().describe()
    runs_on = f"Python {platform.python_version()}, {platform.machine()}, kernels: {backend.instruction_set}"
    print(f"cutaway {cutaway.__version__} ({runs_on})")
    print(f"threads: {backend.threads.count} ({backend.threads.why})")
