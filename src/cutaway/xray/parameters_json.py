"""Sampling parameters as JSON and back: all of them, so that a later version with other defaults reads the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutaway.errors import ParameterError, RecordError
from cutaway.sampling import SamplingParams
from cutaway.sampling.parameter import bias_of
from cutaway.sampling.params import PARAMETERS
from cutaway.text.chat.reasoning import ReasoningFormat

CONTENTS = frozenset({"text", "texts", "tokens", "words", "bias", "schema"})
"""Kinds of parameters whose values may tell what a request is about."""
_NOT_JSON = frozenset({"functions"})


def parameters_json(params: SamplingParams) -> dict[str, Any]:
    """Every parameter that JSON can hold, by name. Own stages are functions, and are left out."""
    return {p.name: _plain(getattr(params, p.name)) for p in PARAMETERS if p.kind not in _NOT_JSON}


def parameters_from(value: Any) -> SamplingParams:
    """What `parameters_json` made; each value is checked. Raises RecordError."""
    if not isinstance(value, Mapping):
        raise RecordError("parameters must be an object")
    known = {p.name: p for p in PARAMETERS if p.kind not in _NOT_JSON}
    if unknown := sorted(map(str, value.keys() - known.keys())):
        raise RecordError(f"parameters.{unknown[0][:60]} is not a sampling parameter of this version")
    try:
        return SamplingParams(**{name: _value(known[name].kind, given) for name, given in value.items()})
    except (ParameterError, ValueError, TypeError) as error:
        raise RecordError(f"parameters: {str(error)[:300]}") from None


def withhold_contents(params: SamplingParams) -> tuple[SamplingParams, tuple[str, ...]]:
    """The parameters without texts and token ids, and the names of those that were taken out."""
    named = [p for p in PARAMETERS if p.kind in CONTENTS and getattr(params, p.name) != p.default]
    return params.replace(**{p.name: p.default for p in named}), tuple(p.name for p in named)


def _plain(value: Any) -> Any:
    if isinstance(value, ReasoningFormat):
        return {"start": value.start, "end": value.end}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a NumPy number
        return value.item()
    return value


def _value(kind: str, given: Any) -> Any:
    if kind == "bias":
        return bias_of(given) if isinstance(given, Mapping) else given
    if kind == "object" and given is not None:
        if not (isinstance(given, Mapping) and all(isinstance(given.get(end), str) for end in ("start", "end"))):
            raise RecordError("parameters.reasoning must hold start and end, two texts")
        return ReasoningFormat(given["start"], given["end"])
    return _tuples(given) if kind in ("texts", "tokens", "words") else given


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
