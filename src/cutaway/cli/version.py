"""`cutaway version`."""

from __future__ import annotations


def version() -> None:
    """Print the version, and what it runs on."""
    import platform
    from importlib import metadata

    try:
        number = metadata.version("cutaway")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        number = "(not installed)"
    from cutaway.native import _native

    kernels = _native.instruction_set()
    print(f"cutaway {number} (Python {platform.python_version()}, {platform.machine()}, kernels: {kernels})")
