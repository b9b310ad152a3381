"""What a chat asks, whichever API it came by, and how it becomes token ids, parameters and a reader of the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cutaway.assemble import Engine
from cutaway.sampling import SamplingParams
from cutaway.sampling.grammar_tools import ToolConstraint, tool_constraint
from cutaway.sampling.params import CONSTRAINTS
from cutaway.server.form_or_calls import FormOrCalls
from cutaway.server.hearing import heard
from cutaway.server.prepared import Prepared
from cutaway.server.problems import bad_request
from cutaway.server.reader import Reader
from cutaway.server.served import Served
from cutaway.server.truncation import fitted
from cutaway.text import require_template
from cutaway.text.reasoning import ReasoningParser, opens_reasoning
from cutaway.text.tool_formats import control_markers, renders_tools, tool_instructions
from cutaway.text.tool_parser import ToolParser

ToolChoice = Literal["none", "auto", "required"]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """messages, tools, documents: in OpenAI's shape. tool_name: of a call that must be made. variables: further ones of
    the template. truncation: what becomes of a chat that is too long."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: ToolChoice = "auto"
    tool_name: str | None = None
    parallel: bool = True
    documents: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)
    truncation: Literal["error", "auto"] = "error"
    reasoning_budget: int | None = None

    @property
    def calls(self) -> bool:
        """Whether the answer may call a tool."""
        return bool(self.tools) and self.tool_choice != "none"

    def prepare(self, served: Served, engine: Engine, params: SamplingParams) -> Prepared:
        """Its one prompt. Raises CutawayError, ApiError."""
        return prepare(served, engine, self, params)


def prepare(served: Served, engine: Engine, dialogue: Dialogue, params: SamplingParams) -> Prepared:
    """Takes milliseconds, with large tools or long chats more: for a thread. Raises CutawayError, ApiError."""
    warnings: list[str] = []
    messages = [_developer_as_system(message) for message in dialogue.messages]
    template = require_template(engine.template)
    opening: str | None = None
    shown: Sequence[Mapping[str, Any]] | None = None
    if dialogue.calls:
        if renders_tools(template.source) or template.named.get("tool_use"):
            shown = dialogue.tools
        else:
            messages = _instructed(messages, tool_instructions(_format(served), dialogue.tools))
            warnings.append("this model's template does not show tools; they are described in the system message")
        params, constraint = _constrained(served, engine, dialogue, params)
        warnings += constraint.warnings
        opening = constraint.opening

    def render(chat: Sequence[Mapping[str, Any]]) -> tuple[list[int], str]:
        segments = template.render(
            chat, tools=shown, documents=dialogue.documents, add_generation_prompt=dialogue.add_generation_prompt,
            continue_final_message=dialogue.continue_final_message, **dialogue.variables,
        )  # fmt: skip
        ids = heard(warnings, engine.tokenizer.encode_segments, segments)
        return ids, "".join(text for text, _ in segments[-8:])

    if dialogue.truncation == "auto":
        (tokens, end), left_out = fitted(messages, render, engine.context, params.max_tokens)
        warnings += left_out
    else:
        tokens, end = render(messages)
    params, opened = _reasoned(served, engine, dialogue.reasoning_budget, params, end)
    return Prepared([tokens], params, _reader(served, dialogue, params, opened, opening), tuple(warnings))


def _developer_as_system(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenAI's newer name of the role; templates know the older one."""
    if isinstance(message, Mapping) and message.get("role") == "developer":
        return {**message, "role": "system"}
    return message


def _format(served: Served) -> str:
    if served.tool_format is None:
        raise bad_request(
            f"it is not known how {served.name} writes tool calls: neither its template nor its family tells",
            "tools", "tools_unsupported",
        )  # fmt: skip
    return served.tool_format


def _instructed(messages: list[Mapping[str, Any]], instructions: str) -> list[Mapping[str, Any]]:
    """The instructions behind the system message there is, or as one."""
    first = messages[0] if messages else {}
    if isinstance(first, Mapping) and first.get("role") == "system" and isinstance(first.get("content"), str):
        return [{**first, "content": f"{first['content']}\n\n{instructions}"}, *messages[1:]]
    return [{"role": "system", "content": instructions}, *messages]


def _constrained(
    served: Served, engine: Engine, dialogue: Dialogue, params: SamplingParams
) -> tuple[SamplingParams, ToolConstraint]:
    """The parameters with one grammar for calls and for the form that the request asks for; all of that."""
    made = tool_constraint(
        _format(served), dialogue.tools, engine.tokenizer, choice=dialogue.tool_choice, name=dialogue.tool_name,
        parallel=dialogue.parallel, form=params.constraint,
    )  # fmt: skip
    without_form = dict.fromkeys(CONSTRAINTS) | {"json_object": False}
    return params.replace(**without_form | {"grammar": made.grammar, "visible_tokens": made.visible_tokens}), made


def _reasoned(
    served: Served, engine: Engine, budget: int | None, params: SamplingParams, end: str
) -> tuple[SamplingParams, bool]:
    """The parameters of a model that reasons, and whether the prompt has begun the reasoning."""
    format = served.reasoning
    if format is None:
        if budget is not None:
            raise bad_request(
                f"{served.name} does not reason, as far as its template tells",
                "reasoning_budget",
                "parameter_unsupported",
            )
        return params, False
    opened = opens_reasoning(end, format)
    visible = {*params.visible_tokens, *control_markers((format.start, format.end), engine.tokenizer)}
    made = params.replace(
        reasoning=format, reasoning_open=opened, reasoning_budget=budget, visible_tokens=tuple(sorted(visible))
    )
    return made, opened


def _reader(
    served: Served, dialogue: Dialogue, params: SamplingParams, opened: bool, opening: str | None
) -> Callable[[], Reader]:
    """opened: the prompt has begun the reasoning. opening: how calls begin, if the answer may be of a form instead."""
    names = [dialogue.tool_name] if dialogue.tool_name else [_name(tool) for tool in dialogue.tools]

    def make() -> Reader:
        reasoning = ReasoningParser(served.reasoning, open=opened) if served.reasoning is not None else None
        tools: ToolParser | FormOrCalls | None = None
        if dialogue.calls:
            parser = ToolParser(
                _format(served), names=names, parallel=dialogue.parallel and dialogue.tool_name is None,
                eager=params.grammar is not None,
            )  # fmt: skip
            tools = parser if opening is None else FormOrCalls(parser, opening)
        return Reader(reasoning, tools, reason="stop" if dialogue.tool_name else "tool_calls")

    return make


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("function", tool).get("name"))


def chosen_tools(
    tools: Sequence[Mapping[str, Any]] | None, choice: str | Mapping[str, Any] | None
) -> tuple[Sequence[Mapping[str, Any]], ToolChoice, str | None]:
    """OpenAI's `tools` and `tool_choice`, checked: the tools, the choice, the name of the one that must be called.

    Raises ApiError.
    """
    for number, tool in enumerate(tools or ()):
        function = tool.get("function")
        if (
            tool.get("type", "function") != "function"
            or not isinstance(function, Mapping)
            or not isinstance(function.get("name"), str)
        ):
            raise bad_request(
                f"tools.{number} must be a function: {{type, function: {{name, parameters}}}}",
                "tools",
                "parameter_invalid",
            )
    names = [_name(tool) for tool in tools or ()]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise bad_request(f"two tools are named {repeated[0]!r}", "tools", "parameter_invalid")
    if choice in (None, "auto", "none"):
        return tools or (), "none" if choice == "none" else "auto", None
    if choice == "required":
        if not names:
            raise bad_request("tool_choice is 'required', and there are no tools", "tool_choice", "parameter_invalid")
        return tools or (), "required", None
    name = _named(choice)
    if name not in names:
        said = f"tools are {', '.join(names)}" if names else "there are no tools"
        raise bad_request(f"tool_choice names {name!r}; {said}", "tool_choice", "parameter_invalid")
    return tools or (), "required", name


def template_variables(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """chat_template_kwargs, which must not name what a request says elsewhere. Raises ApiError."""
    taken = {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "self"}
    if wrong := sorted(taken & (given or {}).keys()):
        raise bad_request(f"chat_template_kwargs must not have {wrong[0]}", "chat_template_kwargs", "parameter_invalid")
    return dict(given or {})


def _named(choice: str | Mapping[str, Any] | None) -> str:
    function = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise bad_request(
            f"tool_choice is {choice!r}; it must be 'none', 'auto', 'required' or name a function",
            "tool_choice",
            "parameter_invalid",
        )
    return name
