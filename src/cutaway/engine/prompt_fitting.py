"""Shortens prompts that are too long by dropping their oldest part, once or whenever the context is full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.engine.sliding_context import Shorten, behind_head, room_for_more
from cutaway.text import losses_known

Message = Mapping[str, Any]
Rendered = tuple[list[int], str]
Render = Callable[[Sequence[Message]], Rendered]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt that fits, if possible. end: the last part of its text. shorten: shortens it during the answer."""

    tokens: list[int]
    end: str = ""
    warnings: tuple[str, ...] = ()
    shorten: Shorten | None = None


def fitted(
    messages: Sequence[Message], render: Render, context: int, max_tokens: int | None, *,
    again: Callable[[Sequence[Message]], list[int]] | None = None,
) -> Fitted:
    """The rendered chat without as many of its oldest turns as necessary, and warnings with their number.

    A turn is a user's message and everything up to the next one. System messages and the last turn are always kept. If
    the last turn alone does not fit it is rendered all the same, and the engine refuses it with the numbers. again:
    renders the remaining turns, in the engine's thread, if more are dropped during the answer.
    """
    room = context - _least(context, max_tokens, slides=again is not None)
    whole = render(messages)
    turns = _turns(messages)
    if len(whole[0]) <= room or len(turns) == 1:
        return Fitted(*whole, shorten=again and sliding(turns, again, len(whole[0]), 0))
    fewest = _fewest(turns, lambda kept: render(kept)[0], room, 1)
    kept = _without(turns, fewest)
    shorter = render(kept)
    count = len(messages) - len(kept)
    said = (
        f"truncation: the oldest {fewest} turns ({count} messages, {len(whole[0]) - len(shorter[0])} tokens) were left "
        f"out to fit {len(whole[0])} tokens into the context of {context}"
    )
    return Fitted(*shorter, (said,), again and sliding(turns, again, len(whole[0]), fewest))


def fitted_text(tokens: list[int], context: int, max_tokens: int | None) -> Fitted:
    """A text without turns, which can be shortened during the answer."""
    shorten = behind_head(tokens, context)
    if len(tokens) + _least(context, max_tokens, slides=True) <= context:
        return Fitted(tokens, shorten=shorten)
    kept, what = shorten(context - room_for_more(context))
    said = f"truncation: {what} to fit {len(tokens)} tokens into the context of {context}"
    return Fitted(kept, warnings=(said,), shorten=shorten)


def sliding(
    turns: list[list[Message]], render: Callable[[Sequence[Message]], list[int]], whole: int, out: int
) -> Shorten:
    """The chat without as few of its oldest turns as possible, or its last turn alone.

    whole: tokens of the chat. out: turns that do not fit at the start, so that only the rest is rendered again.
    """

    def shorten(most: int) -> tuple[list[int], str]:
        with losses_known():  # the warnings of the chat were given when it was first rendered
            fewest = _fewest(turns, render, most, out)
            tokens = render(_without(turns, fewest))
        return tokens, f"the oldest {fewest} turns ({whole - len(tokens)} tokens) were left out"

    return shorten


def _least(context: int, max_tokens: int | None, *, slides: bool) -> int:
    """Tokens that the prompt leaves for the answer."""
    if max_tokens is None:
        return room_for_more(context)
    return min(max_tokens, room_for_more(context) if slides else context - 1)


def _fewest(
    turns: list[list[Message]], render: Callable[[Sequence[Message]], list[int]], most: int, fewest: int
) -> int:
    """The smallest number of oldest turns, at least `fewest` and without the last, whose removal leaves `most`
    tokens."""
    last = len(turns) - 1
    while fewest < last:  # removing more turns never makes it longer
        middle = (fewest + last) // 2
        if len(render(_without(turns, middle))) <= most:
            last = middle
        else:
            fewest = middle + 1
    return fewest


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages before the first user's message belong to the first turn."""
    turns: list[list[Message]] = [[]]
    for message in messages:
        if message.get("role") == "user" and any(m.get("role") == "user" for m in turns[-1]):
            turns.append([])
        turns[-1].append(message)
    return turns


def _without(turns: list[list[Message]], count: int) -> list[Message]:
    """The chat without its first `count` turns, but with the system messages."""
    kept = [m for turn in turns[:count] for m in turn if m.get("role") in ("system", "developer")]
    return kept + [message for turn in turns[count:] for message in turn]
