"""A chat in the terms that all APIs share, and its conversion to token ids, parameters and an output parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cutaway.assemble import Engine
from cutaway.engine import Fitted, fitted
from cutaway.sampling import SamplingParams
from cutaway.sampling.constraints.tool_calls import ToolConstraint, tool_constraint
from cutaway.sampling.params import CONSTRAINTS
from cutaway.server.generation.caught_warnings import heard
from cutaway.server.generation.output_parser import Reader
from cutaway.server.generation.prompt_input import Prepared
from cutaway.server.generation.tools_or_text import FormOrCalls
from cutaway.server.models.served_model import Served
from cutaway.server.transport.errors import bad_request
from cutaway.text import Segment
from cutaway.text.chat.clock import Clock, showing
from cutaway.text.chat.reasoning import ReasoningParser, continued_reasoning, opens_reasoning
from cutaway.text.chat_prompt import RESERVED
from cutaway.text.tools.begun_call import begun_call
from cutaway.text.tools.formats import control_markers, tool_format
from cutaway.text.tools.parser import ToolParser

Truncation = Literal["error", "auto", "slide", "disabled"]
ToolChoice = Literal["none", "auto", "required"]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """messages, tools, documents: in OpenAI's format. tool_name: the tool that must be called. variables: further
    variables of the template. truncation: how a chat that is too long is shortened. thinks: reasoning was requested,
    if the model supports it. warnings: about fields that were ignored."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: ToolChoice = "auto"
    tool_name: str | None = None
    parallel: bool = True
    documents: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)
    truncation: Truncation = "error"
    reasoning_budget: int | None = None
    thinks: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def calls(self) -> bool:
        """Whether the answer may call a tool."""
        return bool(self.tools) and self.tool_choice != "none"

    def prepare(self, served: Served, engine: Engine, params: SamplingParams) -> Prepared:
        """The prompt of the request. Raises CutawayError, ApiError."""
        return prepare(served, engine, self, params)

    @property
    def continued(self) -> str:
        """The text of the message that the answer continues, or ""."""
        content = self.messages[-1].get("content") if self.continue_final_message and self.messages else None
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
        return content if isinstance(content, str) else ""


def prepare(served: Served, engine: Engine, dialogue: Dialogue, params: SamplingParams) -> Prepared:
    """The token ids, parameters and parser. Takes milliseconds, or more with large tools or long chats, so it runs in a
    thread. Raises CutawayError, ApiError."""
    warnings: list[str] = []
    opening: str | None = None
    begun = ""
    if dialogue.calls:
        begun = begun_call(dialogue.continued, _format(served), _names(dialogue))
        params, constraint = _constrained(served, engine, dialogue, params)
        warnings += constraint.warnings
        opening = constraint.opening
        if begun:
            params, opening = params.replace(grammar=None), None
            warnings.append("the call that the last message has begun is continued without its schema")

    clock = Clock()

    def segments(chat: Sequence[Mapping[str, Any]]) -> list[Segment]:
        with showing(clock):  # also of a prompt that is made shorter later
            return engine.chat_prompt(
                chat, tools=dialogue.tools if dialogue.calls else None,
                documents=dialogue.documents, add_generation_prompt=dialogue.add_generation_prompt,
                continue_final_message=dialogue.continue_final_message, **dialogue.variables,
            )  # fmt: skip

    def render(chat: Sequence[Mapping[str, Any]]) -> tuple[list[int], str]:
        parts = heard(warnings, segments, chat)
        return heard(warnings, engine.tokenizer.encode_segments, parts), "".join(text for text, _ in parts[-8:])

    def again(chat: Sequence[Mapping[str, Any]]) -> list[int]:
        return engine.tokenizer.encode_segments(segments(chat))  # `heard` could delay the engine's thread

    if dialogue.truncation in ("error", "disabled"):
        fit = Fitted(*render(dialogue.messages))
    else:
        slides = dialogue.truncation == "slide"
        fit = fitted(dialogue.messages, render, engine.context, params.max_tokens, again=again if slides else None)
    params = _reasoned(served, engine, dialogue, params, fit.end, warnings)
    reader = _reader(served, dialogue, params, opening, begun)
    said = tuple(dict.fromkeys([*dialogue.warnings, *warnings, *fit.warnings]))
    return Prepared([fit.tokens], params, reader, said, (fit.shorten,), clock.seen)


def _format(served: Served) -> str:
    if served.tool_format is None:
        raise bad_request(
            f"{served.name} has no known tool-call format: neither its template nor its family defines one",
            "tools", "tools_unsupported",
        )  # fmt: skip
    return served.tool_format


def _constrained(
    served: Served, engine: Engine, dialogue: Dialogue, params: SamplingParams
) -> tuple[SamplingParams, ToolConstraint]:
    """The parameters with one grammar for calls and for the requested form, and the grammar's warnings."""
    made = tool_constraint(
        _format(served), dialogue.tools, engine.tokenizer, choice=dialogue.tool_choice, name=dialogue.tool_name,
        parallel=dialogue.parallel, form=params.constraint,
    )  # fmt: skip
    without_form = dict.fromkeys(CONSTRAINTS) | {"json_object": False}
    return params.replace(**without_form | {"grammar": made.grammar, "visible_tokens": made.visible_tokens}), made


def _reasoned(
    served: Served, engine: Engine, dialogue: Dialogue, params: SamplingParams, end: str, warnings: list[str]
) -> SamplingParams:
    """The parameters for a model that reasons. A continued message whose reasoning is complete has no more
    reasoning."""
    format, budget = served.reasoning, dialogue.reasoning_budget
    if format is None:
        if dialogue.thinks:
            warnings.append(f"thinking was ignored: {served.name} does not reason, according to its template")
        elif budget is not None:
            raise bad_request(
                f"{served.name} does not reason, according to its template",
                "reasoning_budget",
                "parameter_unsupported",
            )
        return params
    continued = continued_reasoning(dialogue.continued, format)
    if continued == "closed":
        return params
    opened = continued == "open" or opens_reasoning(end, format)
    visible = {*params.visible_tokens, *control_markers((format.start, format.end), engine.tokenizer)}
    return params.replace(
        reasoning=format, reasoning_open=opened, reasoning_budget=budget, visible_tokens=tuple(sorted(visible))
    )


def _reader(
    served: Served, dialogue: Dialogue, params: SamplingParams, opening: str | None, begun: str
) -> Callable[[], Reader]:
    """opening: the pattern of a call's beginning, if the answer may also have the requested form. begun: the call that
    the prompt has begun."""
    def make() -> Reader:
        format = params.reasoning
        reasoning = ReasoningParser(format, open=params.reasoning_open) if format is not None else None
        tools: ToolParser | FormOrCalls | None = None
        if dialogue.calls:
            parser = ToolParser(
                _format(served), names=_names(dialogue), parallel=dialogue.parallel and dialogue.tool_name is None,
                eager=params.grammar is not None, lenient=dialogue.tool_choice == "auto" or bool(begun),
            )  # fmt: skip
            marked = not tool_format(_format(served)).bare
            tools = parser if opening is None else FormOrCalls(parser, opening, marked=marked)
            if begun:
                parser.push(begun)
        return Reader(reasoning, tools, reason="stop" if dialogue.tool_name else "tool_calls")

    return make


def _names(dialogue: Dialogue) -> list[str]:
    """The names of the tools that the answer may call."""
    return [dialogue.tool_name] if dialogue.tool_name else [_name(tool) for tool in dialogue.tools]


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("function", tool).get("name"))


def chosen_tools(
    tools: Sequence[Mapping[str, Any]] | None, choice: str | Mapping[str, Any] | None
) -> tuple[Sequence[Mapping[str, Any]], ToolChoice, str | None]:
    """OpenAI's `tools` and `tool_choice`, checked: the tools, the choice, and the name of the tool that must be called.

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
        known = f"tools are {', '.join(names)}" if names else "there are no tools"
        raise bad_request(f"tool_choice names {name!r}; {known}", "tool_choice", "parameter_invalid")
    return tools or (), "required", name


def template_variables(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """chat_template_kwargs, which must not contain names of other fields. Raises ApiError."""
    if wrong := sorted(RESERVED & (given or {}).keys()):
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
