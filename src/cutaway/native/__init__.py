"""The compiled extension: weights, pages, recorded programs and candidate selection (csrc/)."""

from . import _native

__all__ = ["_native"]
