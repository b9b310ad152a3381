"""A context that slides: when it is full, what is oldest of the prompt goes, and the answer is continued."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Shorten = Callable[[int], tuple[list[int], str]]
"""A prompt of at most so many tokens, or the shortest that there is; and what of the whole was left out. The engine's
thread calls it, once each time that the context is full."""

ROOM = 256  # tokens that a shortened prompt leaves for the answer, or a quarter of the context if that is less


def room_for_more(context: int) -> int:
    return max(1, min(ROOM, context // 4))


def behind_head(tokens: Sequence[int], context: int) -> Shorten:
    """Of a text without turns, the tokens behind a kept head of a quarter of the context go, the oldest first."""
    head = min(len(tokens), context // 4)

    def shorten(most: int) -> tuple[list[int], str]:
        kept = [*tokens[:head], *tokens[len(tokens) - min(len(tokens) - head, max(0, most - head)) :]]
        return kept, f"{len(tokens) - len(kept)} tokens behind the first {head} were left out"

    return shorten
