"""How the families write tool calls.

hermes: `<tool_call>` {"name", "arguments"} `</tool_call>`, once per call (Hermes 2, Qwen 2.5 and 3, SmolLM3).
smollm: the same with a list of calls between the markers (SmolLM2).
llama3: {"name", "parameters"}, nothing else in the answer, `<|python_tag|>` before it or not; several with `;` between.
mistral: `[TOOL_CALLS]` and a list of {"name", "arguments"}; mistral_args: `[TOOL_CALLS]` name `[ARGS]` arguments.
phi: `<|tool_call|>` list `<|/tool_call|>`, or `functools` and the list (Phi-4).
gemma: {"name", "parameters"}, nothing else in the answer, or in a fence; or Python calls, `[f(a=1)]`, bare or in a
    `tool_code` fence (Google's function calling guide for Gemma 3, which leaves the form to the prompt).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from cutaway.errors import ParameterError
from cutaway.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """opens, closes: markers around calls. bare: an answer that begins with a call needs no marker. python: calls may
    be written as Python. listed: calls are written as a list. arguments: the key of the arguments; "": the name stands
    before them. short_ids: ids of nine letters and digits, as the template wants them.
    plain: opening markers that may also begin something that is no call, so that none need be missed."""

    name: str
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    bare: bool = False
    python: bool = False
    listed: bool = False
    arguments: str = "arguments"
    short_ids: bool = False
    plain: tuple[str, ...] = ()

    def without_markers(self) -> ToolFormat:
        """The same format, if a call may also begin the answer, or be in a code fence for JSON or between `<tools>`
        tags (with which the templates of Qwen show the tools to the model)."""
        opens, closes = (*self.opens, *UNMARKED), (*self.closes, FENCE[:3], "</tools>")
        plain = (*self.plain, *UNMARKED)
        return replace(self, bare=True, opens=opens, closes=closes, plain=plain)


FENCE = "```json"
UNMARKED = (FENCE, "<tools>")
"""The texts that models write in place of the marker of their format."""
FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {
        format.name: format
        for format in (
            ToolFormat("hermes", ("<tool_call>",), ("</tool_call>",)),
            ToolFormat("smollm", ("<tool_call>",), ("</tool_call>",), listed=True),
            ToolFormat("llama3", ("<|python_tag|>",), bare=True, arguments="parameters"),
            ToolFormat("mistral", ("[TOOL_CALLS]",), listed=True, short_ids=True),
            ToolFormat("mistral_args", ("[TOOL_CALLS]",), arguments="", short_ids=True),
            ToolFormat("phi", ("<|tool_call|>", "functools["), ("<|/tool_call|>",), listed=True,
                       plain=("functools",)),
            ToolFormat("gemma", ("```tool_code", FENCE), ("```",), bare=True, python=True, arguments="parameters",
                       plain=(FENCE,)),
        )
    }
)  # fmt: skip
TOOL_FORMATS = tuple(FORMATS)

# Texts that only one format's template contains, the more specific ones first.
_TELLING = (
    ("[ARGS]", "mistral_args"),
    ("[TOOL_CALLS]", "mistral"),
    ("<tool_call>", "hermes"),
    ("<|tool_call|>", "phi"),
    ("<|tool|>", "phi"),
    ("functools", "phi"),
    ("<|python_tag|>", "llama3"),
    ("tool_code", "gemma"),
)
_FAMILIES = (
    ("qwen", "hermes"), ("smollm3", "hermes"), ("smollm", "smollm"), ("mistral", "mistral"), ("mixtral", "mistral"),
    ("phi", "phi"), ("gemma", "gemma"), ("llama", "llama3"),
)  # fmt: skip


def tool_format(name: str) -> ToolFormat:
    """The format with this name. Raises ParameterError for an unknown one."""
    if name not in FORMATS:
        raise ParameterError(f"tool format is {name!r}; it must be one of: {', '.join(FORMATS)}")
    return FORMATS[name]


def detect_tool_format(template_source: str | None, family: str) -> str | None:
    """The format of a model's tool calls: by its chat template, otherwise by its family (`general.architecture` or
    `model_type`, or a more specific name such as the model's); None if neither is known."""
    source = template_source or ""
    for marker, name in _TELLING:
        if marker in source:
            listed = name == "hermes" and re.search(r"<tool_call>\s*\[", source)
            return "smollm" if listed else name
    if "<|start_header_id|>ipython" in source or '"parameters"' in source:
        return "llama3"
    if "<start_of_turn>" in source:
        return "gemma"
    wanted = family.lower()
    return next((name for start, name in _FAMILIES if start in wanted), None)


def renders_tools(template_source: str | None) -> bool:
    """Whether a chat template shows the tools to the model. If not, describe them with `tool_instructions`."""
    return template_source is not None and re.search(r"\btools\b", template_source) is not None


def control_markers(texts: Iterable[str], tokenizer: Tokenizer) -> tuple[int, ...]:
    """The markers that are control tokens of this vocabulary, which are not part of its text by default: for
    `SamplingParams.visible_tokens`."""
    ids = [tokenizer.vocabulary.ids[text] for text in texts if text in tokenizer.vocabulary.ids]
    return tuple(id for id in ids if tokenizer.kind(id) == "control")


def tool_instructions(format: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """A system message for a model whose template does not show tools: the tools, and how a call is written."""
    known = tool_format(format)
    functions = [tool.get("function", tool) for tool in tools]
    listing = "\n".join(json.dumps(function, ensure_ascii=False) for function in functions)
    call = '{"name": <name>, "%s": {<argument>: <value>, ...}}' % (known.arguments or "arguments")
    if known.name == "mistral_args":
        call = "<name>[ARGS]{<argument>: <value>, ...}"
    elif known.listed:
        call = f"[{call}, ...]"
    open_, close = ("", "") if known.bare else (known.opens[0], "".join(known.closes[:1]))
    return (
        "You can call functions. These exist, each described as a JSON object with a JSON schema of its parameters:\n"
        f"{listing}\nTo call one, answer with nothing but\n{open_}{call}{close}\n"
        "If no function is needed, answer in plain text."
    )
