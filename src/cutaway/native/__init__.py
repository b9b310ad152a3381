"""The compiled extension: weights, pages, recorded programs and candidate selection (csrc/)."""

from cutaway.native import _native

__all__ = ["_native"]
