"""A form for the answer of a model that reasons first: the form begins where the reasoning ends."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from cutaway.cli.options import option
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.assemble import Engine, Prompt
    from cutaway.engine import Result
    from cutaway.sampling import SamplingParams
    from cutaway.text.chat.reasoning import ReasoningFormat, ReasoningParser

Reasoning = Annotated[
    str,
    option(
        "--reasoning", metavar="auto|off|START,END",
        help="With a form (--json-schema, ...): the markers of the reasoning that comes before it; auto: those of the "
        "chat template. The reasoning goes to standard error.",
    ),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReasonedForm:
    """Separates the reasoning from the form. open: the prompt ends inside the reasoning."""

    format: ReasoningFormat
    open: bool

    def parser(self) -> ReasoningParser:
        from cutaway.text import ReasoningParser

        return ReasoningParser(self.format, open=self.open)

    def parted(self, result: Result) -> tuple[Result, list[str]]:
        """The result with the forms alone as texts, and the reasoning of each answer."""
        from cutaway.text import split_reasoning

        pieces = [split_reasoning(answer.text, self.format, open=self.open) for answer in result.answers]
        answers = tuple(replace(a, text=p.content) for a, p in zip(result.answers, pieces, strict=True))
        return replace(result, answers=answers), [piece.reasoning for piece in pieces]


def check_markers(markers: str) -> None:
    """Raises ParameterError for a value of --reasoning that is none."""
    if markers not in ("auto", "off"):
        start, _, end = markers.partition(",")
        if not start or not end:
            raise ParameterError(f"--reasoning is {markers!r}; it must be auto, off or two markers: START,END")


def reasoned_form(
    engine: Engine, params: SamplingParams, prompt: Prompt, markers: str
) -> tuple[SamplingParams, ReasonedForm | None]:
    """The parameters with which the form waits for the end of the reasoning, and how to tell the two apart; None where
    there is no form, or no reasoning. markers: a checked value of --reasoning. Auto: a text has none."""
    from cutaway.text import control_markers, detect_reasoning, opens_reasoning
    from cutaway.text.chat.reasoning import ReasoningFormat

    if params.constraint is None or markers == "off":
        return params, None
    chat = isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], dict)
    if markers != "auto":
        start, _, end = markers.partition(",")
        format: ReasoningFormat | None = ReasoningFormat(start, end)
    else:
        format = detect_reasoning(engine.template.source) if chat and engine.template is not None else None
    if format is None:
        return params, None
    rendered = "".join(part.text for part in engine.chat_prompt(prompt)) if chat else str(prompt)  # type: ignore[arg-type]
    opened = opens_reasoning(rendered, format)
    visible = {*params.visible_tokens, *control_markers((format.start, format.end), engine.tokenizer)}
    params = params.replace(reasoning=format, reasoning_open=opened, visible_tokens=tuple(sorted(visible)))
    return params, ReasonedForm(format, opened)


def tell_reasoning(text: str) -> None:
    """A piece of the reasoning, apart from the answer."""
    sys.stderr.write(text)
    sys.stderr.flush()


def with_reasoning(told: dict[str, Any], reasoning: list[str]) -> dict[str, Any]:
    """A result as JSON, with the reasoning of its answers. reasoning: [] for an answer without."""
    if not reasoning:
        return told
    choices = [choice | {"reasoning": text} for choice, text in zip(told.get("choices", []), reasoning, strict=False)]
    return told | {"reasoning": reasoning[0]} | ({"choices": choices} if choices else {})
