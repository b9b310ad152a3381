"""Checks of one parameter each: type, then range. Every message says the name, the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling.patterns import Pattern

LARGEST_ID = 2**31 - 1


def check_int(name: str, value: Any, low: int, high: int) -> None:
    # bool is an Integral; a flag given for a number is a mistake
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must be an integer, {low} to {high}")
    if not low <= int(value) <= high:
        raise ParameterError(f"{name} is {value}; it must be {low} to {high}")


def check_number(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must be a number, {low:g} to {high:g}")
    if not (math.isfinite(value) and low <= float(value) <= high):
        raise ParameterError(f"{name} is {value}; it must be {low:g} to {high:g}")


def check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must be True or False")


def check_sequence(name: str, value: Any, of: str) -> None:
    if isinstance(value, str | bytes) or not (isinstance(value, Sequence) or hasattr(value, "__array__")):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must be a list of {of}")


def check_tokens(name: str, value: Any) -> None:
    check_sequence(name, value, "token ids")
    for token in value:
        check_int(f"{name}: a token id", token, 0, LARGEST_ID)


def check_bias(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must map token ids to numbers")
    for token, bias in value.items():
        check_int(f"{name}: a token id", token, 0, LARGEST_ID)
        check_number(f"{name}[{token}]", bias, -100.0, 100.0)


def check_bad_words(name: str, value: Any) -> None:
    check_sequence(name, value, "texts or lists of token ids")
    for word in value:
        if not isinstance(word, str):
            check_tokens(f"{name}: an entry", word)
        if not len(word):
            raise ParameterError(f"{name} holds an empty entry; each must be a text or a list of token ids")


def check_stops(name: str, value: Any) -> None:
    texts = [value] if isinstance(value, str) else value
    check_sequence(name, texts, "texts")
    for text in texts:
        if not isinstance(text, str):
            raise ParameterError(f"{name} holds {text!r} ({type(text).__name__}); it must hold texts")
        if not text:
            raise ParameterError(f"{name} holds an empty text; it would stop before the first character")


def check_patterns(name: str, value: Any) -> None:
    patterns = [value] if isinstance(value, str) else value
    check_stops(name, patterns)
    for pattern in patterns:
        try:
            empty = Pattern(pattern).match_in("", 0, 0)
        except (ValueError, EngineError) as error:
            raise ParameterError(f"{name} is {pattern!r}, which cannot be used: {error}") from None
        if empty is not None:
            raise ParameterError(f"{name} is {pattern!r}; it matches the empty text and would stop at once")


def check_stages(name: str, value: Any) -> None:
    check_sequence(name, value, "functions")
    for stage in value:
        if not callable(stage):
            raise ParameterError(f"{name} holds {stage!r} ({type(stage).__name__}); it must hold functions")


def check_form(*, json_schema: Any, regex: Any, choice: Any, grammar: Any) -> None:
    """Types only; what they say is checked when they are compiled."""
    if json_schema is not None and not isinstance(json_schema, Mapping | bool | str):
        raise ParameterError(f"json_schema is a {type(json_schema).__name__}; it must be an object, true or JSON text")
    for name, value in (("regex", regex), ("grammar", grammar)):
        if value is not None and not (isinstance(value, str) and value):
            raise ParameterError(f"{name} is {value!r}; it must be a text, not empty")
    if choice is not None:
        check_sequence("choice", choice, "texts")
        if not len(choice) or not all(isinstance(text, str) and text for text in choice):
            raise ParameterError(f"choice is {choice!r}; it must be a list of texts, at least one, none empty")
