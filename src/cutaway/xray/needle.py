"""Does the context hold? A sentence hidden in a text, and whether the model still finds it at the text's end.

Nothing is generated: after the text stands the beginning of the sentence, and its end is read. It is found if greedy
decoding would write it: every token of the end is the most probable one. The same without the sentence is the blank
test: what is found there was guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutaway.assemble import Engine
from cutaway.errors import ParameterError
from cutaway.xray.perplexity import first_tokens, surprise

LENGTHS = (0.25, 0.5, 1.0)
"""Shares of the context."""
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where in the text the sentence stands."""
BEGINNING, END = " The password of the northern gate is", " 7294."


@dataclass(frozen=True, slots=True)
class Needle:
    """share: of the context, 0 to 1; tokens: that were read. depth: 0 to 1; None: the blank test. nats: a token of the
    sentence's end."""

    share: float
    tokens: int
    depth: float | None
    found: bool
    nats: float


def needles(
    engine: Engine, text: str, *, lengths: Sequence[float] = LENGTHS, depths: Sequence[float] = DEPTHS
) -> Iterator[Needle]:
    """text: what it is hidden in, repeated where it is too short. Each is yielded as soon as it is known.

    Raises ParameterError for a context too short for the sentence.
    """
    tokenizer = engine.tokenizer
    sentence, asked, end = (tokenizer.encode(t, add_special=False) for t in (BEGINNING + END, BEGINNING, END))
    head = first_tokens(engine)
    hay = tokenizer.encode(text, add_special=False)
    if not hay:
        raise ParameterError("the text that a sentence is to be hidden in is empty")
    for share in lengths:
        room = int(engine.context * share) - len(head) - len(sentence) - len(asked) - len(end) - 1
        if room < len(sentence):
            raise ParameterError(f"a context of {engine.context} tokens is too short for the needle test")
        straw = (hay * (room // len(hay) + 1))[:room]
        for depth in (None, *depths):
            at = 0 if depth is None else round(depth * room)
            hidden = [] if depth is None else sentence
            nats, found = _read(engine, [*head, *straw[:at], *hidden, *straw[at:], *asked], end)
            yield Needle(share, len(head) + room + len(hidden) + len(asked) + len(end), depth, found, nats)


def _read(engine: Engine, before: Sequence[int], end: Sequence[int]) -> tuple[float, bool]:
    """Nats a token of the end, and whether every token of it is the most probable one."""
    tokens, left = [*before, *end], iter(end)
    with engine.read(tokens[:-1], len(before) - 1, look=lambda row: surprise(row, next(left))) as rows:
        seen = list(rows)
    return sum(nats for nats, _ in seen) / len(seen), all(top for _, top in seen)
