"""A request's constraint in the form that llguidance accepts: one grammar text per kind of constraint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from cutaway.errors import ParameterError
from cutaway.sampling.constraints.json_schema import DEEPEST, enforceable
from cutaway.sampling.params import ConstraintKind

LONGEST_TEXT = 1 << 20
BLANKS = r"[\x20\x0A\x0D\x09]{1,8}"
"""JSON's white space, at most eight characters between two parts: a model that repeats newlines must come to an end."""
JSON_OPTIONS = {
    "whitespace_pattern": BLANKS,
    # A key with \u escapes would be another spelling of a key that is already present.
    "json_allowed_escapes": 'nrbtf\\"',
    "lenient": False,
    "coerce_one_of": False,
}
_GBNF_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)


def canonical(kind: ConstraintKind, source: Any, name: str) -> tuple[str, tuple[str, ...]]:
    """The source as text, equal for equal constraints, and warnings. Raises ParameterError."""
    if kind == "json_object":
        return '{"type": "object"}', ()
    if kind == "json_schema":
        schema, warnings = enforceable(source, name)
        return json.dumps(schema), warnings
    text = json.dumps(list(source)) if kind == "choice" else str(source)
    if len(text) > LONGEST_TEXT:
        raise ParameterError(f"{kind} has {len(text)} characters; at most {LONGEST_TEXT} are allowed")
    return text, ()


def as_grammar(kind: ConstraintKind, text: str) -> str:
    """`text` (from `canonical`) as a grammar of llguidance. Raises ParameterError."""
    from llguidance import LLMatcher

    try:
        if kind in ("json_object", "json_schema"):
            return LLMatcher.grammar_from_json_schema(text, overrides=JSON_OPTIONS)  # type: ignore[arg-type]
        if kind == "regex":
            return LLMatcher.grammar_from_regex(text)
        if kind == "choice":
            return LLMatcher.grammar_from_regex(alternatives(json.loads(text)))
        return LLMatcher.grammar_from_lark(lark(text))
    except ValueError as error:
        raise ParameterError(f"{kind} cannot be used: {error}") from None


def nested(kind: ConstraintKind, text: str) -> str:
    """`text` (from `canonical`) as the right side of a rule in another grammar of Lark. Raises ParameterError."""
    if kind in ("json_object", "json_schema"):
        schema = json.loads(text)
        return f"%json {json.dumps({'x-guidance': JSON_OPTIONS} | (schema if isinstance(schema, dict) else {}))}"
    if kind == "grammar":
        return f"%lark {{\n{lark(text)}\n}}"
    expression = text if kind == "regex" else alternatives(json.loads(text))
    (whole,) = json.loads(as_grammar("regex", expression))["grammars"]
    return f"%lark {{\n{whole['lark_grammar']}\n}}"


def alternatives(texts: Iterable[str]) -> str:
    """A regular expression for exactly these texts."""
    return "|".join("".join(map(_literal, text)) for text in texts)


def _literal(character: str) -> str:
    plain = character.isascii() and character.isalnum()
    return character if plain else f"\\x{{{ord(character):x}}}"


def lark(text: str) -> str:
    """A grammar in Lark or GBNF, converted to Lark. Raises ParameterError for GBNF that cannot be parsed."""
    from llguidance.gbnf_to_lark import gbnf_to_lark, is_lark_syntax

    if is_lark_syntax(text):
        return text
    if "::=" not in text:
        raise ParameterError('grammar is neither Lark (it has no rule "start:") nor GBNF (it has no "root ::=")')
    try:
        return gbnf_to_lark(_GBNF_ESCAPE.sub(_spelled, text))
    except RecursionError:
        raise ParameterError(f"grammar is nested too deeply (more than {DEEPEST} levels are not needed)") from None
    except Exception as error:  # the converter raises bare exceptions, and index errors of its own
        what = "it ends inside an escape" if isinstance(error, IndexError) else error
        raise ParameterError(f"grammar (GBNF) cannot be used: {what}") from None


def _spelled(match: re.Match[str]) -> str:
    r"""GBNF's \uXXXX as the character itself (the converter would lose leading zeros)."""
    if match[3] is not None:
        return match[0]
    number = int(match[1] or match[2], 16)
    if number < 0x80:
        return f"\\x{number:02x}"
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise ParameterError(f"grammar: {match[0]} is not a character")
    return chr(number)
