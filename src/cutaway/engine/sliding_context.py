"""A sliding context: when it is full, the oldest part of the prompt is dropped, and the answer continues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Shorten = Callable[[int], tuple[list[int], str]]
"""A prompt of at most `most` tokens, or the shortest possible one, and a description of what was dropped in total. The
engine's thread calls it whenever the context is full."""

ROOM = 256  # tokens that a shortened prompt leaves for the answer, or a quarter of the context if that is less


def room_for_more(context: int) -> int:
    return max(1, min(ROOM, context // 4))


def behind_head(tokens: Sequence[int], context: int) -> Shorten:
    """For a text without turns: the oldest tokens after the first quarter of the context, which is kept, are
    dropped."""
    head = min(len(tokens), context // 4)

    def shorten(most: int) -> tuple[list[int], str]:
        kept = [*tokens[:head], *tokens[len(tokens) - min(len(tokens) - head, max(0, most - head)) :]]
        return kept, f"{len(tokens) - len(kept)} tokens behind the first {head} were left out"

    return shorten
