"""Relaxes a schema that cannot be enforced completely, keyword by keyword and no more than necessary."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cutaway.errors import ParameterError
from cutaway.sampling.constraints.compile import compile_constraint
from cutaway.sampling.constraints.json_schema import drop, enforceable
from cutaway.sampling.constraints.subschemas import subschemas
from cutaway.text import Tokenizer

MOST_DROPPED, MOST_TRIED = 32, 128
_LAST = ("type", "required", "properties", "$defs", "definitions")  # removed only if nothing else helps


def loosened(schema: Any, tokenizer: Tokenizer, name: str) -> tuple[dict[str, Any], list[str], tuple[str, ...]]:
    """A schema of arguments that can be enforced and accepts everything that `schema` accepts; the removed keywords,
    each as `keyword at place: why`; and warnings about keywords that never constrain.

    Raises ParameterError if there is no such schema: then the arguments cannot be constrained at all.
    """
    dropped: list[str] = []
    plain, warnings = enforceable(schema, name, dropped=dropped)
    for _ in range(MOST_DROPPED):
        try:
            compile_constraint("json_schema", plain, tokenizer, name=name)
            return plain, dropped, warnings
        except ParameterError as error:
            plain = _without_one(plain, tokenizer, name, str(error), dropped)
    raise ParameterError(f"{name} has more than {MOST_DROPPED} keywords that cannot be enforced")


def _without_one(
    schema: Mapping[str, Any], tokenizer: Tokenizer, name: str, error: str, dropped: list[str]
) -> dict[str, Any]:
    """The schema without the keyword that causes the error: the first one without which there is no error, otherwise
    another one. A keyword that contains schemas is removed only if removing keywords inside it does not help."""
    another: tuple[dict[str, Any], str] | None = None
    for place, keyword in islice(_candidates(schema, error), MOST_TRIED):
        if keyword in _LAST and another is not None:
            break
        tried = copy.deepcopy(dict(schema))
        inner = dict(subschemas(tried))[place]
        what = f"{drop(inner, keyword)} at {place}: {error.removeprefix(name).strip(': ')}"
        try:
            compile_constraint("json_schema", tried, tokenizer, name=name)
        except ParameterError as other:
            if str(other) != error and another is None:
                another = tried, what
            continue
        dropped.append(what)
        return tried
    if another is None:
        raise ParameterError(error)
    dropped.append(another[1])
    return another[0]


def _candidates(schema: Mapping[str, Any], error: str) -> Iterator[tuple[str, str]]:
    """Places and keywords: first those that the error names, inner ones before outer ones."""
    inside: Sequence[tuple[str, dict[str, Any]]] = list(subschemas(dict(schema)))[::-1]
    every = [(place, keyword) for place, inner in inside for keyword in inner]
    yield from sorted(every, key=lambda found: (found[1] in _LAST, found[1] not in error))
