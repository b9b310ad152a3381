"""`cutaway version`."""

from __future__ import annotations


def version() -> None:
    """Print the version, and what it runs on."""
    import platform

    import cutaway
    from cutaway.native import _native
    from cutaway.ops.cores import choose_threads

    threads = choose_threads()
    runs_on = f"Python {platform.python_version()}, {platform.machine()}, kernels: {_native.instruction_set()}"
    print(f"cutaway {cutaway.__version__} ({runs_on})")
    print(f"threads: {threads.count} ({threads.why})")
