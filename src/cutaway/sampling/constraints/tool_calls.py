"""The grammar of an answer with tool calls.

A call is one JSON value whose schema defines both name and arguments, so that no boundary inside it lies between two
grammars. Markers that are control tokens of the vocabulary are named as tokens, others are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.errors import ParameterError
from cutaway.sampling.constraints.compile import compile_constraint
from cutaway.sampling.constraints.grammar import JSON_OPTIONS, canonical, nested
from cutaway.sampling.constraints.json_schema import enforceable
from cutaway.sampling.constraints.loosen import loosened
from cutaway.sampling.params import ConstraintKind
from cutaway.text import Tokenizer
from cutaway.text.tools.formats import ToolFormat, control_markers, tool_format


@dataclass(frozen=True, slots=True)
class ToolConstraint:
    """Additions to the sampling parameters of a request with tools. grammar: for `SamplingParams.grammar`; None: none
    is needed. visible_tokens: for `SamplingParams.visible_tokens`: control tokens that are markers of calls and must
    be in the text for the parser. warnings: about what is not enforced. opening: if the answer is either calls or a
    text of another form, a pattern for the beginning of calls."""

    grammar: str | None
    visible_tokens: tuple[int, ...]
    warnings: tuple[str, ...]
    opening: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that may be called. schema: of its arguments, ready for llguidance."""

    name: str
    schema: Mapping[str, Any]


def tool_constraint(
    format: str, tools: Sequence[Mapping[str, Any]], tokenizer: Tokenizer, *, choice: str = "auto",
    name: str | None = None, parallel: bool = True, form: tuple[ConstraintKind, Any] | None = None,
) -> ToolConstraint:  # fmt: skip
    """The constraint for tool_choice. tools: OpenAI's `tools` (`{"type": "function", "function": {name, parameters}}`,
    or the functions alone).

    choice: "auto": any text, and from an opening marker on a complete call of one of the tools; "required": at least
    one call (exactly one if parallel is false) and nothing else; with `name`: exactly one call, of that tool; "none":
    no constraint. The arguments follow the tool's schema. If that cannot be enforced completely, a tool with `"strict":
    true` is refused (ParameterError with keyword and path); the schemas of others are relaxed, with a warning that
    names tool and keyword. A function without parameters, or with empty `properties`, takes `{}`.

    form: the form of an answer without calls, as arguments of `compile_constraint`. "auto" is then either calls and
    nothing else, or such a text. If calls have no marker (llama3, gemma), a text of the form that is written as a call
    of one of the tools counts as a call; "required" and `name` leave no room for a form.

    Compiles each schema once; like `compile_constraint`, call it in a thread. Raises ParameterError for no tools, an
    unknown name or choice, or an invalid schema.
    """
    known = tool_format(format)
    if choice not in ("auto", "required", "none"):
        raise ParameterError(f"tool choice is {choice!r}; it must be auto, required, none, or the name of a tool")
    if choice == "none" and name is None:
        return ToolConstraint(None, (), ())
    warnings: list[str] = []
    able = [_tool(tool, f"tools[{place}]", tokenizer, warnings) for place, tool in enumerate(tools)]
    if not able:
        raise ParameterError(f"tools is empty; tool choice {name or choice!r} needs at least one")
    if name is not None:
        able = [tool for tool in able if tool.name == name]
        if not able:
            raise ParameterError(f"tool choice names {name!r}, which is not in tools")
    writer = _Writer(known, tokenizer, able)
    if name is not None or choice == "required":
        grammar = writer.calls(many=parallel and name is None)
    elif form is not None:
        warnings.extend(compile_constraint(*form, tokenizer).warnings)
        grammar = writer.either(nested(form[0], canonical(*form, form[0])[0]), many=parallel)
        compile_constraint("grammar", grammar, tokenizer, name=f"{form[0]} beside tools")
    else:
        grammar = writer.free(many=parallel)
    markers = (*known.opens, *known.closes, *(_INNER if known.name.startswith("mistral") else ()))
    opening = writer.opening() if form is not None and name is None and choice == "auto" else None
    return ToolConstraint(grammar, control_markers(markers, tokenizer), tuple(warnings), opening)


_INNER = ("[ARGS]", "[CALL_ID]")
_TEXT = r"TEXT: /[\s\S]*/"
_PLAIN = r"PLAIN: /([^{\s][\s\S]*)?/"  # an answer that begins with a brace is a call


def _tool(tool: Mapping[str, Any], where: str, tokenizer: Tokenizer, warnings: list[str]) -> Tool:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        raise ParameterError(f"{where} must be an object that describes a function")
    name = function.get("name")
    if not isinstance(name, str) or not 1 <= len(name) <= 256:
        raise ParameterError(f"{where}: the function's name is {name!r:.40}; it must be a text of 1 to 256 characters")
    parameters = function.get("parameters", function.get("input_schema"))
    if parameters is None or _names_nothing(parameters):
        return Tool(name, {"type": "object", "additionalProperties": False})
    dropped: list[str] = []
    called = f"{where}.function.parameters"
    try:
        if function.get("strict") is True:
            schema, told = enforceable(parameters, called)
            _check_object(schema, called)
            compile_constraint("json_schema", schema, tokenizer, name=called)
        else:
            schema, dropped, told = loosened(parameters, tokenizer, called)
            _check_object(schema, called)
    except ParameterError as error:
        if function.get("strict") is True:
            raise
        warnings.append(f"tool {name!r}: {error}; its arguments are any object")
        return Tool(name, {"type": "object"})
    warnings.extend(told)
    warnings.extend(f"tool {name!r}: {what}; its arguments are looser there" for what in dropped)
    return Tool(name, {**schema, "type": "object"})


def _check_object(schema: Mapping[str, Any], called: str) -> None:
    kinds = schema.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise ParameterError(f"{called}: type is {kinds!r}; arguments are an object")


def _names_nothing(parameters: Any) -> bool:
    """Whether a function takes no arguments, in the usual notations: it has no properties and says nothing else."""
    silent = {"type", "properties", "required", "title", "description", "$schema"}
    return isinstance(parameters, Mapping) and parameters.keys() <= silent and (
        parameters.get("properties") == {} and not parameters.get("required")
        and parameters.get("type", "object") == "object"
    )  # fmt: skip


class _Writer:
    """The Lark grammar of one format. `BODY` is the part between the markers: one call, or a list of calls."""

    def __init__(self, format: ToolFormat, tokenizer: Tokenizer, tools: Sequence[Tool]) -> None:
        self._format = format
        self._tokenizer = tokenizer
        self._tools = tools

    def calls(self, *, many: bool) -> str:
        """Only calls: at least one, and exactly one if not `many`."""
        return self._grammar(f"start: {self._several(many)}", many)

    def either(self, form: str, *, many: bool) -> str:
        """Only calls, or only the form (the right side of a rule)."""
        marker = self._control(self._format.opens[0]) if self._format.bare else ""
        marked = f" | {marker} calls" if marker else ""
        return self._grammar(f"start: calls{marked} | form\ncalls: {self._several(many)}\nform: {form}", many)

    def opening(self) -> str:
        """A pattern for the beginning of calls: their marker, or without a marker the name of a tool."""
        if not self._format.bare:
            return re.escape(self._format.opens[0])
        names = "|".join(re.escape(json.dumps(tool.name, ensure_ascii=False)) for tool in self._tools)
        key = rf'"name"\s*:\s*(?:{names})\s*,\s*"{self._format.arguments}"\s*:\s*\{{'
        return rf"(?:{re.escape(self._format.opens[0])})?\s*\{{\s*{key}"

    def _several(self, many: bool) -> str:
        one = self._call(many)
        listed = many and not self._format.listed
        more = f" ({self._between()} {one})*" if listed and not self._format.bare else ""
        if listed and self._format.bare:
            more = f" (BLANKS? {self._quoted(';')} BLANKS? {one})*"
        return f"{one}{more}"

    def free(self, *, many: bool) -> str:
        """Any text with calls in it, each complete from its (first) marker on."""
        format = self._format
        if format.bare:
            marked = f" | {self._marker(format.opens[0])} calls" if self._control(format.opens[0]) else ""
            more = f" (BLANKS? {self._quoted(';')} BLANKS? body)*" if many else ""
            return self._grammar(f"start: PLAIN | calls{marked}\ncalls: body{more}\n{_PLAIN}", many)
        token = self._control(format.opens[0])
        head = f"head: TEXT {token}" if token else f"head[lazy]: TEXT {self._quoted(format.opens[0])}"
        call = f"head {self._call(many, opened=True)}"
        start = f"start: ({call})* tail" if many and not format.listed else f"start: tail | {call}"
        return self._grammar(f"{start}\n{head}\ntail: TEXT\n{_TEXT}", many)

    def _call(self, many: bool, *, opened: bool = False) -> str:
        """A call with its markers; opened: without the first."""
        format = self._format
        opening = "" if opened or format.bare else f"{self._marker(format.opens[0])} "
        closing = f" BLANKS? {self._marker(format.closes[0])}" if format.closes and not format.bare else ""
        blanks = "" if format.bare or not format.arguments else "BLANKS? "
        return f"{opening}{blanks}body{closing}"

    def _between(self) -> str:
        return "BLANKS?" if self._format.closes else ""

    def _grammar(self, rules: str, many: bool) -> str:
        blanks = r"BLANKS: /[ \n]{1,8}/" if "BLANKS" in rules else ""
        return "\n".join(part for part in ("%llguidance {}", rules, self._body(many), blanks) if part) + "\n"

    def _body(self, many: bool) -> str:
        format, options = self._format, {"x-guidance": JSON_OPTIONS}
        if not format.arguments:  # the name comes before the arguments
            between = self._marker("[ARGS]")
            named = [f"{self._quoted(tool.name)} {between} arguments{i}" for i, tool in enumerate(self._tools)]
            schemas = [f"arguments{i}: %json {_json({**tool.schema, **options})}" for i, tool in enumerate(self._tools)]
            return "\n".join([f"body: {' | '.join(named)}", *schemas])
        defined = {f"t{i}": moved(tool.schema, f"#/$defs/t{i}") for i, tool in enumerate(self._tools)}
        each = [
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, format.arguments: {"$ref": f"#/$defs/t{i}"}},
                "required": ["name", format.arguments],
                "additionalProperties": False,
            }
            for i, tool in enumerate(self._tools)
        ]
        schema: dict[str, Any] = {"anyOf": each}
        if format.listed:
            schema = {"type": "array", "items": schema, "minItems": 1, **({} if many else {"maxItems": 1})}
        return f"body: %json {_json({**options, **schema, '$defs': defined})}"

    def _marker(self, text: str) -> str:
        return self._control(text) or self._quoted(text)

    def _control(self, text: str) -> str:
        ids = control_markers([text], self._tokenizer)
        return f"<[{ids[0]}]>" if ids else ""

    @staticmethod
    def _quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)


def _json(value: Any) -> str:
    return json.dumps(value)


def moved(schema: Any, root: str) -> Any:
    """A schema whose references, relative to its own root, are rewritten for its new place. root: that place."""
    if isinstance(schema, list):
        return [moved(inner, root) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            made[key] = root + value[1:]
        elif key in ("const", "enum", "default", "examples"):
            made[key] = value
        elif key in ("properties", "patternProperties", "$defs", "definitions") and isinstance(value, Mapping):
            made[key] = {name: moved(inner, root) for name, inner in value.items()}
        else:
            made[key] = moved(value, root)
    return made
