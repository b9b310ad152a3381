"""What is odd about a prompt: facts that can be pointed at in its tokens, and what they cost. No guesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cutaway.text.chat.origins import CLOCK
from cutaway.xray.prompt_account import PromptAccount, PromptInput, PromptSpan
from cutaway.xray.prompt_model import PromptModel

REPEATED_CHARACTERS = 40
"""The shortest text whose second occurrence is a finding."""
_TIME = re.compile(r"\b(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?\b|\b1[6-9]\d{8}\b")  # 03:02, 03:02:11, Unix seconds


@dataclass(frozen=True, slots=True)
class Finding:
    """code: stable. what: for people. token: the index of the first token concerned; message: of the message; tokens:
    how many the finding is about; None: does not apply."""

    code: str
    what: str
    token: int | None = None
    message: int | None = None
    tokens: int | None = None


def prompt_findings(account: PromptAccount, model: PromptModel, asked: PromptInput) -> tuple[Finding, ...]:
    """In the order of the checks below."""
    return tuple(finding for check in CHECKS for finding in check(account, model, asked))


def _beginning(account: PromptAccount, model: PromptModel, asked: PromptInput) -> Iterator[Finding]:
    bos, ids = model.tokenizer.bos_id, [token.id for token in account.tokens]
    if bos is None:
        return
    count = next((n for n, id in enumerate(ids) if id != bos), len(ids))
    if count > 1:
        who = " and ".join(dict.fromkeys(token.by for token in account.tokens[:count]))
        name = model.tokenizer.piece(bos)
        yield Finding("double_bos", f"the prompt begins with {count} times {name} (by {who})", 0, tokens=count)
    if not count and model.tokenizer.add_bos:
        name = model.tokenizer.piece(bos)
        yield Finding("missing_bos", f"the model expects {name} at the beginning, and the prompt has none", 0)


def _end(account: PromptAccount, model: PromptModel, asked: PromptInput) -> Iterator[Finding]:
    """The last control token ends a turn, and nothing but blanks follows."""
    if asked.continue_final_message:
        return
    for token in reversed(account.tokens):
        if token.kind == "control" or token.id in model.tokenizer.end_ids:
            if token.id in model.tokenizer.end_ids:
                what = f"behind the last {token.piece} nothing opens the assistant's turn"
                yield Finding("missing_generation_prompt", what, token.index)
            return
        if token.bytes.strip():
            return


def _control_text(account: PromptAccount, model: PromptModel, asked: PromptInput) -> Iterator[Finding]:
    for span in account.spans:
        if span.by != "user":
            continue
        text = account.text[span.start : span.end]
        found = list(model.tokenizer.markers.find(text))
        first: dict[str, int] = {}
        for match in found:
            first.setdefault(text[match.start : match.end], span.start + match.start)
        times = Counter(text[match.start : match.end] for match in found)
        for marker, start in first.items():
            what = f"{_place(span)} contains the control text {marker}{_times(times[marker])}; here it is read as text"
            yield Finding("control_text", what, account.first_token(start), span.message)


def _clock(account: PromptAccount, model: PromptModel, asked: PromptInput) -> Iterator[Finding]:
    for span in account.spans:
        text = account.text[span.start : span.end]
        if span.source == CLOCK:
            yield _moving(account, span.start, f"the template writes the clock, {text!r}", None)
        elif span.by == "user" and span.role == "system":
            for match in _TIME.finditer(text):
                start = span.start + match.start()
                yield _moving(account, start, f"{_place(span)} contains a time, {match[0]!r}", span.message)


def _moving(account: PromptAccount, start: int, what: str, message: int | None) -> Finding:
    token = account.first_token(start)
    behind = 0 if token is None else len(account.tokens) - token
    price = f"when it changes, the prefix cache cannot give the {behind} tokens from there on"
    return Finding("clock", f"{what}; {price}", token, message, behind)


def _repeated_system(account: PromptAccount, model: PromptModel, asked: PromptInput) -> Iterator[Finding]:
    spans = [s for s in account.spans if s.role == "system" and s.by == "user" and s.source != CLOCK]
    reported: set[str] = set()
    for span in spans:
        whole = account.text[span.start : span.end].strip()
        parts = [whole, *(line.strip() for line in whole.splitlines())]
        for text in parts:
            if len(text) < REPEATED_CHARACTERS or any(text in known for known in reported):
                continue
            first = account.text.find(text)
            again = account.text.find(text, first + len(text))
            if again >= 0:
                reported.add(text)
                yield _repeated(account, text, again)


def _repeated(account: PromptAccount, text: str, again: int) -> Finding:
    times = account.text.count(text)
    concerned = [t for t in account.tokens if t.start >= again and t.end <= again + len(text)]
    shown = text if len(text) <= 60 else text[:57] + "..."
    what = f"a text of the system message stands in the prompt {times} times ({len(concerned)} tokens each): {shown!r}"
    first = concerned[0] if concerned else None
    message = None if first is None else first.message
    return Finding("system_repeated", what, account.first_token(again), message, len(concerned) * (times - 1))


def _size(account: PromptAccount, model: PromptModel, asked: PromptInput) -> Iterator[Finding]:
    count, context = len(account.tokens), account.context
    if context is not None and count >= context:
        what = f"the prompt has {count} tokens, and the context {context}: no room is left for an answer"
        yield Finding("context_exceeded", what, context - 1, tokens=count - context + 1)


def _place(span: PromptSpan) -> str:
    return f"{span.source} ({span.role})" if span.role is not None else span.source or "the prompt"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


Check = Callable[[PromptAccount, PromptModel, PromptInput], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (_beginning, _end, _control_text, _clock, _repeated_system, _size)
