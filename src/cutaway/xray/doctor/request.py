"""Checks of a served request: what its record says, and what can be seen in its tokens without the weights."""

from __future__ import annotations

from collections.abc import Iterator

from cutaway.errors import CutawayError
from cutaway.xray.answer_findings import Seen, answer_findings
from cutaway.xray.answer_text import AnswerText
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject
from cutaway.xray.doctor.template import prompt_model
from cutaway.xray.loop_account import loop_account
from cutaway.xray.prompt_account import PromptInput, prompt_account
from cutaway.xray.prompt_findings import prompt_findings
from cutaway.xray.recorded import known_answer

_REMEDIES = {
    "loop": "cutaway branch REQUEST --remedies shows which penalty helps; on_repetition = stop ends such answers",
    "form_at_high_temperature": "temperature 0 to 0.3",
    "code_at_high_temperature": "temperature 0 to 0.3",
    "end_held_back": "leave ignore_eos out",
    "stop_id_is_text": "take ids of this model (cutaway tokens), or stop with a text",
    "stop_id_unused": "take ids of this model (cutaway tokens), or stop with a text",
    "clock": "--date fixes the template's time; a time in a system message belongs at its end",
    "system_repeated": "send it once",
}
WAITED = 0.5
"""The share of a request's time in the queue that is a warning."""


def record(subject: Subject) -> Iterator[Diagnosis]:
    """Whether there is a record of it."""
    if subject.request is not None and subject.record is None:
        yield Diagnosis("error", "record_not_found", "there is no record of the request", str(subject.record_error), "",
                        "cutaway requests lists those that are kept")  # fmt: skip


def ending(subject: Subject) -> Iterator[Diagnosis]:
    """How it ended."""
    if (found := subject.record) is None:
        return
    end = found.end
    if end.kind == "error" or end.status >= 400:
        yield Diagnosis("error", "request_failed", "the request failed",
                        f"status {end.status}, {end.error}: {end.message}", "",
                        "docs/errors.md explains each code")  # fmt: skip
    elif end.kind == "cancelled":
        yield Diagnosis("warning", "request_cancelled", "the client left before the answer had ended",
                        f"after {found.tokens} tokens", "a time limit of the client or of a proxy, or a person",
                        "raise the client's timeout, or stream")  # fmt: skip
    elif found.prompt_tokens + found.tokens >= found.system.context:
        yield Diagnosis("warning", "context_full", "the answer was cut where the context ended",
                        f"{found.prompt_tokens} + {found.tokens} tokens of {found.system.context}",
                        "prompt and answer share the context",
                        "a larger --context, or a shorter prompt; truncation = slide")  # fmt: skip
    elif end.kind in ("length", "time"):
        limit = "max_tokens" if end.kind == "length" else "time_limit"
        yield Diagnosis("note", "answer_cut", "the answer was cut by its limit", f"{limit} after {found.tokens} tokens",
                        "", f"a larger {limit}")  # fmt: skip


def waiting(subject: Subject) -> Iterator[Diagnosis]:
    """What it waited for, and lost."""
    if (found := subject.record) is None:
        return
    figures = found.figures
    if figures.queued_ms and figures.total_ms and figures.queued_ms > WAITED * figures.total_ms:
        yield Diagnosis("warning", "queued_long", "the request waited longer than it was computed",
                        f"{figures.queued_ms:.0f} of {figures.total_ms:.0f} ms in the queue",
                        "other requests had its pages or its place",
                        "cutaway waterfall; more --contexts, fewer requests at once")  # fmt: skip
    if figures.preemptions:
        yield Diagnosis("warning", "preempted", "its pages were taken, and computed again later",
                        f"{figures.preemptions} preemptions", "the cache is too small for the requests at once",
                        "more --contexts, --kv-k int8 --kv-v int8, or fewer requests at once")  # fmt: skip
    for line in found.warnings:
        yield Diagnosis("warning", "request_warning", "the server warned about the request", line)


def tokens(subject: Subject) -> Iterator[Diagnosis]:
    """What `cutaway explain` and `cutaway prompt` find without the model's probabilities."""
    found, model = subject.record, subject.opened
    if found is None:
        return
    if model is None or model.tokenizer is None:
        yield Diagnosis("unknown", "tokens_unread", "what is odd about its tokens is not known",
                        f"the tokenizer of {found.system.model} is not here", "", "--model names it")  # fmt: skip
        return
    try:
        known = known_answer(found)
        text = AnswerText.of(known, model.tokenizer)
        loop = loop_account(known, model.tokenizer, ())
        odd = [*answer_findings(Seen(known, model.tokenizer, (), loop, text))]
        names, asked = prompt_model(model), PromptInput(ids=known.prompt)
        odd += prompt_findings(prompt_account(names, asked), names, asked)
    except (CutawayError, IndexError) as error:
        yield Diagnosis("unknown", "tokens_unread", "what is odd about its tokens is not known", str(error))
        return
    for one in odd:
        yield Diagnosis("warning", one.code, "the request or its answer is odd", one.what, "",
                        _REMEDIES.get(one.code, "cutaway explain REQUEST shows it"))  # fmt: skip
