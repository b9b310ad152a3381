"""A chat that is too long, made to fit by leaving out its oldest turns, whole; never the system message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
Rendered = tuple[list[int], str]
ROOM = 256  # tokens left for an answer whose length nobody says, or a quarter of the context if that is less


def fitted(
    messages: Sequence[Message], render: Callable[[Sequence[Message]], Rendered], context: int, max_tokens: int | None
) -> tuple[Rendered, list[str]]:
    """The chat rendered, with as few of its oldest turns left out as make it fit, and warnings that say how many.

    A turn is a user's message and everything up to the next one's. If the last turn alone does not fit it is rendered
    all the same: the engine refuses it with the numbers.
    """
    room = context - (min(ROOM, context // 4) if max_tokens is None else min(max_tokens, context - 1))
    whole = render(messages)
    turns = _turns(messages)
    if len(whole[0]) <= room or len(turns) == 1:
        return whole, []
    fewest, most = 1, len(turns) - 1
    while fewest < most:  # leaving out more never makes it longer
        middle = (fewest + most) // 2
        if len(render(_without(turns, middle))[0]) <= room:
            most = middle
        else:
            fewest = middle + 1
    kept = _without(turns, fewest)
    shorter = render(kept)
    count = len(messages) - len(kept)
    return shorter, [
        f"truncation: the oldest {fewest} turns ({count} messages, {len(whole[0]) - len(shorter[0])} tokens) were left "
        f"out to fit {len(whole[0])} tokens into the context of {context}"
    ]


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """What comes before the first user's message belongs to the first turn."""
    turns: list[list[Message]] = [[]]
    for message in messages:
        if message.get("role") == "user" and any(m.get("role") == "user" for m in turns[-1]):
            turns.append([])
        turns[-1].append(message)
    return turns


def _without(turns: list[list[Message]], count: int) -> list[Message]:
    """The chat without its first `count` turns; system messages stay."""
    kept = [m for turn in turns[:count] for m in turn if m.get("role") in ("system", "developer")]
    return kept + [message for turn in turns[count:] for message in turn]
