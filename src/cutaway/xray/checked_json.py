"""Reading JSON of unknown origin: every value is checked, and an error names its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cutaway.errors import RecordError

T = TypeVar("T")
LARGEST = 2**53
"""The largest integer that JSON carries everywhere."""


class Fields:
    """The fields of one JSON object. where: how errors call it. Each method raises RecordError."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise RecordError(f"{where} must be an object, and is {_shown(value)}")
        self._value, self._where = value, where

    def _wrong(self, name: str, expected: str) -> RecordError:
        return RecordError(f"{self._where}.{name} must be {expected}, and is {_shown(self._value.get(name))}")

    def has(self, name: str) -> bool:
        """Whether it is there and not null."""
        return self._value.get(name) is not None

    def optional(self, read: Callable[..., T], name: str, *limits: Any) -> T | None:
        """What `read` gives, or None where the field is null or absent."""
        return read(name, *limits) if self.has(name) else None

    def text(self, name: str, longest: int = 1024) -> str:
        """A text without surrogates, which no file can hold."""
        value = self._value.get(name)
        if not isinstance(value, str) or len(value) > longest or any("\ud800" <= c <= "\udfff" for c in value):
            raise self._wrong(name, f"a text of at most {longest} characters")
        return value

    def word(self, name: str, *known: str) -> str:
        value = self._value.get(name)
        if value not in known or not isinstance(value, str):
            raise self._wrong(name, " or ".join(map(repr, known)))
        return value

    def integer(self, name: str, low: int = 0, high: int = LARGEST) -> int:
        value = self._value.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(name, f"an integer from {low} to {high}")
        return value

    def number(self, name: str, low: float = 0.0, high: float = 1e12) -> float:
        return _number(self._value.get(name), low, high, lambda: self._wrong(name, f"a number from {low} to {high:g}"))

    def flag(self, name: str) -> bool:
        value = self._value.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def items(self, name: str, longest: int) -> list[Any]:
        value = self._value.get(name)
        if not isinstance(value, list) or len(value) > longest:
            raise self._wrong(name, f"a list of at most {longest} entries")
        return value

    def integers(self, name: str, high: int, longest: int) -> tuple[int, ...]:
        """Of 0 to `high`."""
        found = self.items(name, longest)
        if any(not isinstance(one, int) or isinstance(one, bool) or not 0 <= one <= high for one in found):
            raise self._wrong(name, f"a list of integers from 0 to {high}")
        return tuple(found)

    def numbers(self, name: str, high: float, longest: int) -> tuple[float, ...]:
        """Of 0 to `high`."""
        wrong = self._wrong(name, f"a list of numbers from 0 to {high:g}")
        return tuple(_number(one, 0.0, high, lambda: wrong) for one in self.items(name, longest))

    def texts(self, name: str, count: int, longest: int) -> tuple[str, ...]:
        found = self.items(name, count)
        return tuple(Fields({name: one}, self._where).text(name, longest) for one in found)

    def object(self, name: str) -> Fields:
        return Fields(self._value.get(name), f"{self._where}.{name}")

    def objects(self, name: str, longest: int) -> list[Fields]:
        found = self.items(name, longest)
        return [Fields(one, f"{self._where}.{name}[{number}]") for number, one in enumerate(found)]

    def raw(self, name: str) -> Any:
        """Unchecked; None where it is absent."""
        return self._value.get(name)


def _number(value: Any, low: float, high: float, wrong: Callable[[], RecordError]) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise wrong()  # NaN compares false
    assert math.isfinite(value)
    return float(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
