"""Checks of a chat template: that it renders, and what it makes of a plain chat."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from cutaway.errors import CutawayError
from cutaway.text import tool_format_of
from cutaway.xray.doctor.diagnosis import Diagnosis, Severity
from cutaway.xray.doctor.subject import OpenedModel, Subject
from cutaway.xray.prompt_account import PromptInput, prompt_account
from cutaway.xray.prompt_findings import prompt_findings
from cutaway.xray.prompt_model import PromptModel

USER = {"role": "user", "content": "Why is the sky blue? 为什么？"}
CHATS = {
    "a user's message": [USER],
    "three turns": [USER, {"role": "assistant", "content": "It scatters."}, USER],
    "a system message": [{"role": "system", "content": "Be brief."}, USER],
}
_SEVERITIES: dict[str, Severity] = {
    "double_bos": "warning", "missing_bos": "warning", "missing_generation_prompt": "warning", "clock": "note",
}  # fmt: skip
_REMEDIES = {"clock": "--date fixes the time, so that the prefix cache works across minutes"}


def rendering(subject: Subject) -> Iterator[Diagnosis]:
    """Whether it parses and renders chats of the usual shapes."""
    model = subject.opened
    if model is None or model.tokenizer is None:
        return
    if model.template is None and "template" not in model.errors:
        yield Diagnosis("note", "no_template", "the model has no chat template", "chat is refused, completions work",
                        "a base model, or a file without its template",
                        "use an instructed model (its name often ends in instruct or it)")  # fmt: skip
        return
    if "template" in model.errors:
        yield Diagnosis("error", "template_invalid", "the chat template cannot be used", str(model.errors["template"]),
                        "it is damaged, or uses what templates do not have",
                        "use the template of the model's publisher")  # fmt: skip
        return
    for what, chat in CHATS.items():
        try:
            with warnings.catch_warnings(action="ignore"):
                assert model.template is not None
                model.template.render(chat)
        except CutawayError as error:
            system = what == "a system message"
            yield Diagnosis(
                "note" if system else "error", "template_refuses", f"the chat template refuses {what}", str(error),
                "the model was trained without it" if system else "the template is not one for chats",
                "put the instruction into the first user message" if system else "use the publisher's template",
            )  # fmt: skip
            return


def rendered_prompt(subject: Subject) -> Iterator[Diagnosis]:
    """What `cutaway prompt` finds in a plain chat."""
    model = subject.opened
    if model is None or model.template is None or "template" in model.errors or model.tokenizer is None:
        return
    try:
        asked = PromptInput(messages=CHATS["a user's message"])
        with warnings.catch_warnings(action="ignore"):
            known = prompt_model(model)
            found = prompt_findings(prompt_account(known, asked), known, asked)
    except CutawayError:
        return  # `rendering` names it
    for finding in found:
        if finding.code in _SEVERITIES:
            yield Diagnosis(
                _SEVERITIES[finding.code], finding.code, "a plain chat has an odd prompt", finding.what,
                "the chat template, or what the tokenizer adds", _REMEDIES.get(finding.code, "cutaway prompt shows it"),
            )  # fmt: skip


def publisher(subject: Subject) -> Iterator[Diagnosis]:
    """The catalogue has no hashes of templates, so that a comparison with the publisher's is not possible."""
    if subject.opened is not None and subject.opened.template is not None:
        yield Diagnosis("unknown", "template_origin", "whether the template is the publisher's is not known",
                        "the catalogue has no hash of it", "",
                        "cutaway prompt FILE --diff PUBLISHED.jinja compares it with another one")  # fmt: skip


def prompt_model(model: OpenedModel) -> PromptModel:
    """Of a model whose tokenizer could be built."""
    assert model.tokenizer is not None
    family = "" if model.spec is None else model.spec.family
    context = None if model.spec is None else model.spec.context
    return PromptModel(model.name, model.tokenizer, model.template, context,
                       tool_format_of(model.template, model.name, family))  # fmt: skip
