"""How far two sequences are alike."""

from __future__ import annotations

from collections.abc import Sequence


def same_start(one: Sequence[object], other: Sequence[object]) -> int:
    """How many of their first items are equal."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
