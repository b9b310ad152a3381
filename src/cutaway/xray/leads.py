"""Where an alternative would have led: the answer with one token replaced, continued with the same seed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from cutaway.assemble import Engine
from cutaway.errors import CutawayError
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.same_start import same_start
from cutaway.xray.token_account import Cost, token_text
from cutaway.xray.way import Way


@dataclass(frozen=True, slots=True)
class Lead:
    """token, text: what stands at the place in question; continuation: the tokens drawn behind it, and their text.

    ended: why it ended before its length was reached (a StopKind); None: it did not. same_as_answer: how many
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
    way, text = Way(engine, known, position, key, cost), token_text(engine.tokenizer, token)
    try:
        followed, continued, ended = way.follow(token, 1 + length)
    except CutawayError as error:
        if error.code != "constraint_failed":
            raise
        return Lead(token, text, (), "", None, 0, "the form of the output does not let it come")
    chosen, own = followed[1:], token == known.answer[position]
    same = same_start(chosen, known.answer[position + 1 :]) if own else 0
    return Lead(token, text, chosen, continued, ended, same)
