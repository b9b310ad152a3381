"""The compiled extension: weights, pages, recorded programs and candidate selection (csrc/)."""

import cutaway.native._native as _native  # noqa: PLR0402 - mypy finds the stub only so

__all__ = ["_native"]
