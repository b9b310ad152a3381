"""Constraints: what the output may be, compiled to a mask over the vocabulary by llguidance.

A request names one by plain data (SamplingParams: json_object, json_schema, regex, choice, grammar). It is compiled
once (`compile_constraint`, cached by content); each choice owns a `Matcher`.
"""

from __future__ import annotations

from typing import Any

from cutaway.sampling.params import ConstraintKind
from cutaway.text import Tokenizer


class Constraint:
    """A compiled constraint, shared by all who ask for the same. warnings: schema keywords that are annotations only
    and were not enforced. seconds: what compiling took."""

    warnings: tuple[str, ...]
    seconds: float


def compile_constraint(kind: ConstraintKind, source: Any, tokenizer: Tokenizer) -> Constraint:
    """The constraint, from the cache if the same was asked for lately (32 per tokenizer, least recently used go).

    kind, source: "json_object": True; "json_schema": a schema as mapping, bool or JSON text; "regex": a regular
    expression (Rust's syntax, no look-around) for the whole output; "choice": texts, one of which is the whole output;
    "grammar": Lark as llguidance takes it, or GBNF.
    Call it from a thread of yours (it may take a second for the first constraint of a model, and milliseconds later)
    before you submit the request: in a coroutine, `await asyncio.to_thread(compile_constraint, *params.constraint,
    tokenizer)`. Raises ParameterError, with what cannot be enforced and where.
    """
    raise NotImplementedError
