"""Checks of single parameters: type, then range. Every message has the name, the value and the permitted values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling.parameter import LARGEST, Parameter

LoopPolicy = Literal["warn", "stop", "cool"]


def check_parameter(parameter: Parameter, value: Any) -> None:
    """Raises ParameterError if `value` has the wrong type or is out of range."""
    if value is None and parameter.optional:
        return
    if parameter.choices and parameter.kind == "word":
        check_choice(parameter, value)
    else:
        _CHECKS[parameter.kind](parameter, value)


def check_ids(parameter: Parameter, value: Any, vocab: int) -> None:
    """Raises ParameterError if `value` contains a token id that is not below `vocab`."""
    ids: Iterable[int] = ()
    if parameter.kind in ("bias", "tokens"):
        ids = () if value is None else value
    elif parameter.kind == "words":
        ids = [token for entry in value if not isinstance(entry, str) for token in entry]
    for token in ids:
        if token >= vocab:
            raise ParameterError(f"{parameter.name} names token {token}; ids of this model are 0 to {vocab - 1}")


def check_choice(parameter: Parameter, value: Any) -> None:
    if value not in parameter.choices:
        listed = [repr(choice) for choice in parameter.choices] + (["None"] if parameter.optional else [])
        raise ParameterError(f"{parameter.name} is {value!r}; it must be {' or '.join(listed)}")


def check_policy(policy: LoopPolicy | None, stops: bool | None) -> None:
    """Raises ParameterError where on_repetition and the older stop_on_repetition want different things."""
    if policy is not None and stops is not None and stops != (policy == "stop"):
        raise ParameterError(f"on_repetition is {policy!r} and stop_on_repetition is {stops}; give one of them")


def check_integer(name: str, value: Any, low: float, high: float) -> None:
    # bool is an Integral, but a flag in place of a number is a mistake
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must be an integer, {low} to {high}")
    if not low <= int(value) <= high:
        raise ParameterError(f"{name} is {value}; it must be {low} to {high}")


def check_number(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must be a number, {low:g} to {high:g}")
    if not (math.isfinite(value) and low <= float(value) <= high):
        raise ParameterError(f"{name} is {value}; it must be {low:g} to {high:g}")


def check_sequence(name: str, value: Any, of: str) -> None:
    if isinstance(value, str | bytes) or not (isinstance(value, Sequence) or hasattr(value, "__array__")):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must be a list of {of}")


def _integer(parameter: Parameter, value: Any) -> None:
    check_integer(parameter.name, value, parameter.low, parameter.high)
    if parameter.choices:
        check_choice(parameter, value)


def _number(parameter: Parameter, value: Any) -> None:
    check_number(parameter.name, value, parameter.low, parameter.high)
    if parameter.above and value <= parameter.low:
        raise ParameterError(f"{parameter.name} is {value!r}; it must be above {parameter.low:g}")


def _flag(parameter: Parameter, value: Any) -> None:
    if not isinstance(value, bool):
        raise ParameterError(f"{parameter.name} is {value!r} ({type(value).__name__}); it must be True or False")


def check_tokens(name: str, value: Any) -> None:
    check_sequence(name, value, "token ids")
    for token in value:
        check_integer(f"{name}: a token id", token, 0, LARGEST)


def _tokens(parameter: Parameter, value: Any) -> None:
    check_tokens(parameter.name, value)
    if parameter.optional and not len(value):
        raise ParameterError(f"{parameter.name} is empty; it must name at least one token, or be None")


def _bias(parameter: Parameter, value: Any) -> None:
    name = parameter.name
    if not isinstance(value, Mapping):
        raise ParameterError(f"{name} is {value!r} ({type(value).__name__}); it must map token ids to numbers")
    for token, bias in value.items():
        check_integer(f"{name}: a token id", token, 0, LARGEST)
        check_number(f"{name}[{token}]", bias, -100.0, 100.0)


def _words(parameter: Parameter, value: Any) -> None:
    name = parameter.name
    check_sequence(name, value, "texts or lists of token ids")
    for word in value:
        if not isinstance(word, str):
            check_tokens(f"{name}: an entry", word)
        if not len(word):
            raise ParameterError(f"{name} holds an empty entry; each must be a text or a list of token ids")


def _texts(parameter: Parameter, value: Any) -> None:
    name = parameter.name
    texts = [value] if isinstance(value, str) and not parameter.optional else value
    check_sequence(name, texts, "texts")
    for text in texts:
        if not isinstance(text, str):
            raise ParameterError(f"{name} holds {text!r} ({type(text).__name__}); it must hold texts")
        if not text:
            raise ParameterError(f"{name} holds an empty text; {_EMPTY.get(name, 'each must have a character')}")
    if parameter.optional and not len(texts):
        raise ParameterError(f"{name} is empty; it must hold at least one text, or be None")
    if name == "stop_regex":
        _patterns(name, texts)


_EMPTY = {"stop": "it would stop before the first character"}


def _patterns(name: str, patterns: Sequence[str]) -> None:
    from cutaway.sampling.patterns import Pattern  # other commands need not load the library

    for pattern in patterns:
        try:
            empty = Pattern(pattern).match_in("", 0, 0)
        except (ValueError, EngineError) as error:
            raise ParameterError(f"{name} is {pattern!r}, which cannot be used: {error}") from None
        if empty is not None:
            raise ParameterError(f"{name} is {pattern!r}; it matches the empty text and would stop at once")


def _functions(parameter: Parameter, value: Any) -> None:
    check_sequence(parameter.name, value, "functions")
    for function in value:
        if not callable(function):
            raise ParameterError(
                f"{parameter.name} holds {function!r} ({type(function).__name__}); it must hold functions"
            )


def _text(parameter: Parameter, value: Any) -> None:
    """Check the type only; the contents are checked when the constraint is compiled."""
    if not (isinstance(value, str) and value):
        raise ParameterError(f"{parameter.name} is {value!r}; it must be a text, not empty")


def _schema(parameter: Parameter, value: Any) -> None:
    if not isinstance(value, Mapping | bool | str):
        raise ParameterError(f"{parameter.name} is a {type(value).__name__}; it must be an object, true or JSON text")


def _reasoning(parameter: Parameter, value: Any) -> None:
    from cutaway.text.chat.reasoning import ReasoningFormat

    if not isinstance(value, ReasoningFormat):
        raise ParameterError(f"{parameter.name} is {value!r}; it must be a ReasoningFormat, or None")


_CHECKS: Mapping[str, Callable[[Parameter, Any], None]] = {
    "number": _number, "integer": _integer, "flag": _flag, "text": _text, "texts": _texts, "tokens": _tokens,
    "words": _words, "bias": _bias, "schema": _schema, "functions": _functions, "object": _reasoning,
}  # fmt: skip
