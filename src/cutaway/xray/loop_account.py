"""A loop inside an answer: where it began, what goes round, and how the model's uncertainty fell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.sampling.repetition import LoopDetector
from cutaway.text import Tokenizer
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.token_account import TokenAccount

POINTS = 8
"""Rounds at most whose mean entropy is told: the first, the last, and others between them."""


@dataclass(frozen=True, slots=True)
class LoopAccount:
    """The same tokens, again and again; the alarm of docs/parameters.md (`stop_on_repetition`) has the same rule.

    period: tokens of one round; repeats: whole rounds; start, end: the tokens of the answer that it covers; seen: the
    token at which the alarm rose; text: one round.
    rounds, entropy: numbers of rounds from 0, and the mean entropy of the model's distribution over each, in nats.
    end_probability: the best chance that an end token had inside; None: nothing of the kind ends this answer.
    dry_blind: breakers of DRY inside the round, across which it sees no repetition.
    """

    period: int
    repeats: int
    start: int
    end: int
    seen: int
    text: str
    rounds: tuple[int, ...]
    entropy: tuple[float, ...]
    end_probability: float | None
    dry_blind: tuple[str, ...]


def loop_account(
    known: KnownAnswer, tokenizer: Tokenizer, tokens: Sequence[TokenAccount]
) -> LoopAccount | None:
    """The last loop of the answer, None if there is none. tokens: the accounts of all or some of its tokens."""
    detector, seen, end = LoopDetector(), None, 0
    inside = False
    for position, token in enumerate(known.answer):
        was, inside = inside, detector.push(token)
        if inside:
            seen, end = position if not was else seen, position + 1
    if detector.loop is None or seen is None:
        return None
    period = detector.loop.period
    start = end - period
    while start and known.answer[start - 1] == known.answer[start - 1 + period]:
        start -= 1
    repeats = (end - start) // period
    by_position = {one.position: one for one in tokens}
    held = [by_position[at] for at in range(start, end) if at in by_position]
    rounds = [r for r in _spread(repeats) if all(at in by_position for at in _round(start, period, r))]
    means = [sum(by_position[at].entropy for at in _round(start, period, r)) / period for r in rounds]
    chances = [one.end.probability for one in held if one.end is not None]
    text = tokenizer.decode(known.answer[start : start + period])
    breakers = tuple(b for b in known.params.dry_sequence_breakers if b in text)
    return LoopAccount(
        period, repeats, start, end, seen, text, tuple(rounds), tuple(means), max(chances, default=None), breakers
    )


def _round(start: int, period: int, number: int) -> range:
    return range(start + number * period, start + (number + 1) * period)


def _spread(count: int) -> list[int]:
    """At most POINTS of 0 to count - 1, the first and the last among them."""
    if count <= POINTS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (POINTS - 1)) for i in range(POINTS)})
