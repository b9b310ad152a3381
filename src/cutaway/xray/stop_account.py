"""Why an answer stopped: what ended it, where that matched, and how near the end token was at each step before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

from cutaway.sampling import StopReason
from cutaway.sampling.patterns import Pattern
from cutaway.text import Tokenizer
from cutaway.xray.answer_text import AnswerText
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.token_account import TokenAccount, token_text

NEAREST = 5


@dataclass(frozen=True, slots=True)
class EndId:
    """A token that ends an answer. kind: as the vocabulary has it ("control", "normal", ...); source: "model" (its own
    end tokens) or "request" (stop_token_ids); counts: whether it would have ended this one (ignore_eos)."""

    token: int
    text: str
    kind: str
    source: str
    counts: bool


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near an end was at one step. Fields as of an `Alternative`; margin: nats by which the best token of the
    model's distribution was better (0: it was the best)."""

    position: int
    token: int
    text: str
    probability: float
    rank: int
    drawn: float
    cut_by: str | None


@dataclass(frozen=True, slots=True)
class StopAccount:
    """kind: why it ended, as in `StopReason`, or "unknown"; matched: the token id or the text that ended it; pattern:
    the stop string or pattern of the request that matched; at: the token at which it ended.

    first_token, last_token: the tokens that hold what matched; start, end: its characters in the answer's whole text;
    None where nothing in the text ended it.
    ends: the tokens that end an answer. nearest: the steps at which one of them was most probable, but for the last
    token if that is one; last: of the last token. why: the same in one sentence.
    """

    kind: str
    matched: str | int | None
    pattern: str | None
    at: int | None
    first_token: int | None
    last_token: int | None
    start: int | None
    end: int | None
    ends: tuple[EndId, ...]
    nearest: tuple[Nearness, ...]
    last: Nearness | None
    why: str


def stop_account(
    known: KnownAnswer, tokenizer: Tokenizer, tokens: Sequence[TokenAccount], text: AnswerText
) -> StopAccount:
    """tokens: the accounts of all or some of the answer's tokens, in order. text: of the answer."""
    stop = known.stop
    span = None if stop is None else _span(stop, text, known)
    held = None if span is None else (text.token_at(span[0]), text.token_at(max(span[0], span[1] - 1)))
    if stop is not None and isinstance(stop.matched, int):
        held = stop.at, stop.at
    near = [found for one in tokens if (found := _nearness(one)) is not None]
    ended = stop is not None and stop.kind in ("end_token", "stop_token")
    before = [one for one in near if not ended or stop is None or one.position != stop.at]
    return StopAccount(
        kind="unknown" if stop is None else stop.kind,
        matched=None if stop is None else stop.matched,
        pattern=None if stop is None else _pattern(stop, known),
        at=None if stop is None else stop.at,
        first_token=None if held is None else held[0],
        last_token=None if held is None else held[1],
        start=None if span is None else span[0],
        end=None if span is None else span[1],
        ends=tuple(_ends(known, tokenizer)),
        nearest=tuple(nlargest(NEAREST, before, key=lambda one: (one.probability, -one.position))),
        last=near[-1] if near and near[-1].position == len(known.answer) - 1 else None,
        why=_why(stop, known, tokenizer),
    )


def _nearness(one: TokenAccount) -> Nearness | None:
    end = one.end
    if end is None:
        return None
    return Nearness(one.position, end.token, end.text, end.probability, end.rank, end.drawn, end.cut_by)


def _ends(known: KnownAnswer, tokenizer: Tokenizer) -> list[EndId]:
    own = {
        id: EndId(id, token_text(tokenizer, id), tokenizer.kind(id), "model", not known.params.ignore_eos)
        for id in sorted(tokenizer.end_ids)
    }
    asked = [int(id) for id in known.params.stop_token_ids if own.get(int(id)) is None or known.params.ignore_eos]
    named = [EndId(id, token_text(tokenizer, id), _kind(tokenizer, id), "request", True) for id in asked]
    return [*own.values(), *named]


def _kind(tokenizer: Tokenizer, id: int) -> str:
    return tokenizer.kind(id) if id < tokenizer.vocab_size else "unused"


def _span(stop: StopReason, text: AnswerText, known: KnownAnswer) -> tuple[int, int] | None:
    """The characters that a stop string or pattern matched: the first place at which they end within the last token."""
    if stop.kind not in ("stop_string", "stop_regex") or not isinstance(stop.matched, str):
        return None
    before = text.ends[stop.at - 1] if 0 < stop.at <= len(text.ends) else 0
    at = text.text.find(stop.matched, max(0, before + 1 - len(stop.matched)))
    return None if at < 0 else (at, at + len(stop.matched))


def _pattern(stop: StopReason, known: KnownAnswer) -> str | None:
    if not isinstance(stop.matched, str):
        return None
    if stop.kind == "stop_string":
        return next((one for one in known.params.stop_strings if one == stop.matched), None)
    length = len(stop.matched)
    matching = (p for p in known.params.stop_patterns if Pattern(p).match_in(stop.matched, 0, length) is not None)
    return next(matching, None)


def _why(stop: StopReason | None, known: KnownAnswer, tokenizer: Tokenizer) -> str:
    if stop is None:
        return "the record does not say why it ended"
    if stop.kind in ("end_token", "stop_token"):
        name = token_text(tokenizer, int(stop.matched or 0))
        whose = "an end token of the model" if stop.kind == "end_token" else "one of stop_token_ids"
        return f"{name!r} (#{stop.matched}) came, {whose}"
    count, params = len(known.answer), known.params
    return {
        "stop_string": f"the stop string {stop.matched!r} came",
        "stop_regex": f"a stop pattern matched {stop.matched!r}",
        "repetition": "it repeated itself, and stop_on_repetition was on",
        "length": f"max_tokens was reached: {count} tokens",
        "context": f"the context was full: {len(known.prompt)} tokens of prompt and {count} of answer",
        "time": f"time_limit was reached: {params.time_limit} s",
        "cancelled": "it was cancelled",
        "error": "the engine failed",
    }.get(stop.kind, f"it ended by {stop.kind!r}, which this version does not know")
