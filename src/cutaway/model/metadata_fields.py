"""Typed reading of a model's own description (GGUF metadata or config.json), which is untrusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutaway.errors import FormatError, UnsupportedError

_REQUIRED: Any = object()
MAX_SIZE = 2**31 - 1


class ReadKeys(Mapping[str, Any]):
    """Metadata that notes which keys were read. read: those."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.read: set[str] = set()
        self._values = values

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class Fields:
    """Reads values by name; several names are alternatives, the first present one counts; null counts as absent.

    source: what errors call it ("config.json"). prefix: put before each name ("llama.").
    """

    source: str
    values: Mapping[str, Any]
    prefix: str = ""

    def find(self, *names: str) -> Any:
        """The first present value, or None."""
        found = [self.values.get(self.prefix + name) for name in names]  # all of them: `ReadKeys` takes note
        return next((value for value in found if value is not None), None)

    def integer(self, *names: str, default: Any = _REQUIRED, low: int = 1) -> Any:
        """An int from `low` to 2^31 - 1. A list with equal entries (one per layer) counts as that entry."""
        value = self._scalar(names, default)
        if value is None or value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= MAX_SIZE:
            raise self._wrong(names, value, f"a whole number from {low} to {MAX_SIZE}")
        return int(value)

    def number(self, *names: str, default: Any = _REQUIRED) -> Any:
        """A finite float."""
        value = self._scalar(names, default)
        if value is None or value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
            raise self._wrong(names, value, "a finite number")
        return float(value)

    def positive(self, *names: str, default: Any = _REQUIRED) -> Any:
        """A finite float above zero."""
        value = self.number(*names, default=default)
        if value is not None and value is not default and value <= 0:
            raise self._wrong(names, value, "a number above 0")
        return value

    def flag(self, *names: str, default: bool) -> bool:
        """True or false."""
        value = self.find(*names)
        if value is None:
            return default
        if not isinstance(value, (bool, np.bool_)):
            raise self._wrong(names, value, "true or false")
        return bool(value)

    def text(self, *names: str, default: Any = _REQUIRED) -> Any:
        """A string."""
        value = self._scalar(names, default)
        if value is not None and value is not default and not isinstance(value, str):
            raise self._wrong(names, value, "a string")
        return value

    def numbers(self, *names: str) -> tuple[float, ...]:
        """A list of finite numbers, () when absent."""
        value = self.find(*names)
        if value is None:
            return ()
        if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, str):
            raise self._wrong(names, value, "a list of numbers")
        if not all(isinstance(v, (int, float, np.number)) and math.isfinite(v) for v in value):
            raise self._wrong(names, value, "a list of finite numbers")
        return tuple(float(v) for v in value)

    def _scalar(self, names: tuple[str, ...], default: Any) -> Any:
        value = self.find(*names)
        if value is None:
            if default is _REQUIRED:
                raise FormatError(f"{self.source}: {self.prefix}{names[0]} is missing")
            return default
        if isinstance(value, (list, tuple, np.ndarray)) and len(value):
            if any(v != value[0] for v in value):
                raise UnsupportedError(f"{self.source}: {self.prefix}{names[0]} differs between layers: not supported")
            return value[0]
        return value

    def _wrong(self, names: tuple[str, ...], value: Any, expected: str) -> FormatError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return FormatError(f"{self.source}: {self.prefix}{names[0]} must be {expected}, it is {shown}")
