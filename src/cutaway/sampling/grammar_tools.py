"""The grammar of an answer that calls tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cutaway.text import Tokenizer


@dataclass(frozen=True, slots=True)
class ToolConstraint:
    """What a request with tools adds to its sampling parameters. grammar: for `SamplingParams.grammar`; None: none is
    needed. visible_tokens: for `SamplingParams.visible_tokens`: control tokens that are markers of calls and must show
    in the text for the parser. warnings: what is not enforced."""

    grammar: str | None
    visible_tokens: tuple[int, ...]
    warnings: tuple[str, ...]


def tool_constraint(
    format: str, tools: Sequence[Mapping[str, Any]], tokenizer: Tokenizer, *,
    choice: Literal["auto", "required"] | str = "auto", name: str | None = None, parallel: bool = True,
) -> ToolConstraint:
    """The constraint for tool_choice. tools: OpenAI's `tools` (`{"type": "function", "function": {name, parameters}}`,
    or the functions alone). choice "required": at least one call, nothing else; with `name`: exactly one call, of that
    tool; "auto": any text, and from an opening marker on a whole call of one of the tools. The arguments follow the
    tool's schema; a schema that cannot be enforced is refused (ParameterError with keyword and path), unless the tool
    says `"strict": false`: then its arguments are any JSON object, with a warning.
    Raises ParameterError for no tools, an unknown name, a bad schema.
    """
    raise NotImplementedError
