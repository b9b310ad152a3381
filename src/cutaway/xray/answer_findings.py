"""What is odd about an answer and the settings it was made with: facts that can be pointed at. No guesses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cutaway.sampling.params import GREEDY_BELOW
from cutaway.text import Tokenizer
from cutaway.xray.answer_text import AnswerText
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.languages import language_slide
from cutaway.xray.loop_account import LoopAccount
from cutaway.xray.prompt_findings import Finding
from cutaway.xray.scripts import script_slide
from cutaway.xray.token_account import TokenAccount, token_text

HOT = 0.7
"""From this temperature on a form or code is drawn too freely."""
_FENCE = re.compile(r"^```[^\n]*\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Seen:
    """What findings are looked for in. tokens: the accounts of all or some tokens of the answer."""

    known: KnownAnswer
    tokenizer: Tokenizer
    tokens: Sequence[TokenAccount]
    loop: LoopAccount | None
    text: AnswerText


def answer_findings(seen: Seen) -> tuple[Finding, ...]:
    """In the order of the checks below."""
    return tuple(finding for check in CHECKS for finding in check(seen))


def _not_reproduced(seen: Seen) -> Iterator[Finding]:
    others = [one for one in seen.tokens if one.redrawn != one.token]
    if seen.known.own_stages:
        what = f"{seen.known.own_stages} sampling stages were functions of the caller; the record does not hold them"
        yield Finding("own_stages_unknown", f"{what}, and the figures behind the model's own are without them")
    if others:
        first, drawn = others[0], token_text(seen.tokenizer, others[0].redrawn)
        yield Finding(
            "not_reproduced",
            f"{len(others)} of {len(seen.tokens)} tokens would be drawn otherwise now; the first: {drawn!r} instead of "
            f"{first.text!r}, whose margin is {_nats(first.margin)}",
            first.position, tokens=len(others),
        )  # fmt: skip


def _stop_ids(seen: Seen) -> Iterator[Finding]:
    texts = []
    for id in dict.fromkeys(int(id) for id in seen.known.params.stop_token_ids):
        if id >= seen.tokenizer.vocab_size:
            yield Finding("stop_id_unused", f"stop_token_ids names {id}; this model has no such token")
        elif seen.tokenizer.kind(id) in ("normal", "byte"):
            texts.append((id, token_text(seen.tokenizer, id)))
    if texts:
        named = ", ".join(f"{id} is {text!r}" for id, text in texts)
        yield Finding(
            "stop_id_is_text",
            f"stop_token_ids names ordinary text: {named}; the answer ends wherever that comes"
            " (ids of another model's tokenizer?)",
        )


def _temperature(seen: Seen) -> float:
    """That the tokens are drawn at, 0 where it makes no difference."""
    params = seen.known.params
    return 0.0 if params.top_k == 1 or params.temperature < GREEDY_BELOW else float(params.temperature)


def _hot_form(seen: Seen) -> Iterator[Finding]:
    kind = seen.known.params.constraint
    temperature = _temperature(seen)
    if kind is None or kind[0] == "choice" or temperature < HOT:
        return
    drawn = [one for one in seen.tokens if not one.forced]
    likely = sum(one.rank > 1 for one in drawn)
    what = f"; {likely} of {len(drawn)} tokens that it left open were not the model's first choice" if drawn else ""
    yield Finding("form_at_high_temperature", f"the answer must match {kind[0]}, and is drawn at temperature "
                  f"{temperature:g}{what}; 0 to 0.3 suits a form")  # fmt: skip


def _hot_code(seen: Seen) -> Iterator[Finding]:
    text, temperature = seen.text.text, _temperature(seen)
    code = sum(len(match.group(1)) for match in _FENCE.finditer(text))
    if temperature >= HOT and code * 2 > len(text) and seen.known.params.constraint is None:
        share = code / len(text)
        first = seen.text.token_at(next(_FENCE.finditer(text)).start(1))
        yield Finding("code_at_high_temperature", f"{share:.0%} of the answer is code, drawn at temperature "
                      f"{temperature:g}; 0 to 0.3 suits code", first)  # fmt: skip


def _held_open(seen: Seen) -> Iterator[Finding]:
    """Steps at which the model would have ended, and a setting kept it from it."""
    held = [one for one in seen.tokens if one.end is not None and one.end.rank == 1 and one.end.token != one.token]
    if seen.known.params.ignore_eos:
        held, why = [one for one in held if one.end is not None], "ignore_eos"
    else:
        held = [one for one in held if one.end is not None and one.end.cut_by is not None]
        why = " and ".join(sorted({one.end.cut_by for one in held if one.end is not None and one.end.cut_by}))
    if held:
        first = held[0]
        assert first.end is not None
        yield Finding("end_held_back", f"the model's first choice was to end with {first.end.text!r} at {len(held)} "
                      f"tokens, first with {first.end.probability:.0%}; {why} kept it from it", first.position,
                      tokens=len(held))  # fmt: skip


def _loop(seen: Seen) -> Iterator[Finding]:
    loop = seen.loop
    if loop is not None:
        trend = "" if len(loop.entropy) < 2 else f"; entropy {loop.entropy[0]:.2f} to {loop.entropy[-1]:.2f} nats"
        blind = f"; DRY does not see it across {', '.join(map(repr, loop.dry_blind))}" if loop.dry_blind else ""
        yield Finding("loop", f"the same {loop.period} tokens come {loop.repeats} times{trend}{blind}", loop.start,
                      tokens=loop.end - loop.start)  # fmt: skip


def _slide(seen: Seen) -> Iterator[Finding]:
    asked = _asked_last(seen.known.prompt, seen.tokenizer)
    slide, tongue = script_slide(seen.text.text, asked), language_slide(seen.text.text, asked)
    if tongue is not None:
        yield Finding("language_slide", f"the answer slides from {tongue.before} into {tongue.language}, which the "
                      f"prompt is not in and does not name: {seen.text.text[tongue.at : tongue.at + 40]!r}",
                      seen.text.token_at(tongue.at))  # fmt: skip
    if slide is not None:
        yield Finding("script_slide", f"the answer slides from {slide.before} into {slide.script} letters, which the "
                      f"prompt neither uses nor names: {seen.text.text[slide.at : slide.at + 24]!r}",
                      seen.text.token_at(slide.at))  # fmt: skip


def _asked_last(prompt: Sequence[int], tokenizer: Tokenizer) -> str:
    """The last turn of a chat but for the one that the answer is in; all of a text without turns."""
    turns: list[list[int]] = [[]]
    for token in prompt:
        if token < tokenizer.vocab_size and tokenizer.kind(token) == "control":
            turns.append([])
        else:
            turns[-1].append(token)
    texts = [tokenizer.decode(turn) for turn in turns]
    return next((text for text in reversed(texts[:-1]) if text.strip()), texts[-1])


def _nats(margin: float | None) -> str:
    return "unknown" if margin is None else f"{margin:+.2f} nats"


CHECKS: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    _not_reproduced, _stop_ids, _hot_form, _hot_code, _held_open, _loop, _slide,
)  # fmt: skip
