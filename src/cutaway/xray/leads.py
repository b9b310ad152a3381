"""Where an alternative would have led: the answer with one token replaced, continued with the same seed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from cutaway.assemble import Engine
from cutaway.errors import CutawayError
from cutaway.sampling import Sampler, StopChecker
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.token_account import Cost, sampler_at, token_text


@dataclass(frozen=True, slots=True)
class Lead:
    """token, text: what stands at the asked place; continuation: the tokens drawn behind it, and their text.

    ended: why it ended before as many tokens as were asked for (a StopKind); None: it did not. same_as_answer: how many
    of the continuation's tokens are the answer's own, from its beginning on. refused: why nothing can follow it.
    """

    token: int
    text: str
    continuation: tuple[int, ...]
    continued: str
    ended: str | None
    same_as_answer: int
    refused: str | None = None


def lead(
    engine: Engine, known: KnownAnswer, position: int, token: int, length: int, *, key: Hashable = None,
    cost: Cost | None = None,
) -> Lead:  # fmt: skip
    """The answer up to `position`, then `token`, then up to `length` tokens as the request would have drawn them.

    With the answer's own token it gives the answer again. Each token is read behind all requests, as an account is.
    cost: takes what it costs.
    Raises what `Engine.read` raises.
    """
    passage = next(one for one in known.passages() if one.start <= position < one.end)
    text = token_text(engine.tokenizer, token)
    sampler = sampler_at(engine, known, position, key=key)
    stops = _stops(engine, known, position)
    begun = [*passage.prompt, *known.answer[:position], token]
    try:
        sampler.accept(token)
        shown, stop = stops.push(token)
        length = 0 if stop is not None else length
        chosen, continued, kind = _continued(engine, sampler, stops, begun, length, key, cost)
    except CutawayError as error:
        if error.code != "constraint_failed":
            raise
        return Lead(token, text, (), "", None, 0, "the form of the output does not let it come")
    rest = known.answer[position + 1 :]
    same = next((i for i, (a, b) in enumerate(zip(chosen, rest, strict=False)) if a != b), min(len(chosen), len(rest)))
    return Lead(
        token, text, tuple(chosen), shown + continued, kind if stop is None else stop.kind,
        same if token == known.answer[position] else 0,
    )  # fmt: skip


def _stops(engine: Engine, known: KnownAnswer, position: int) -> StopChecker:
    """The request's stops after the answer's first tokens."""
    params, names = known.params, engine.tokenizer
    before = known.prompt if params.constraint is None else None
    detokenizer = names.detokenizer(shown=params.visible_tokens, after=before)
    stops = StopChecker(params.replace(time_limit=None), names.end_ids, detokenizer)
    for token in known.answer[:position]:
        stops.push(token)
    return stops


def _continued(
    engine: Engine, sampler: Sampler, stops: StopChecker, tokens: list[int], length: int, key: Hashable,
    cost: Cost | None,
) -> tuple[list[int], str, str | None]:  # fmt: skip
    """The tokens that follow, their text, and why they ended before `length`, if they did."""
    chosen: list[int] = []
    text = ""
    while len(chosen) < length:
        if len(tokens) >= engine.context:
            return chosen, text + stops.finish(), "context"
        with engine.read(tokens, len(tokens) - 1, key=key, look=lambda row: sampler.choose(row).token) as rows:
            token = next(rows)
            if cost is not None:
                cost.add(rows)
        chosen.append(token)
        tokens.append(token)
        shown, stop = stops.push(token)
        text += shown
        if stop is not None:
            return chosen, text, stop.kind
    return chosen, text + stops.finish(), None
