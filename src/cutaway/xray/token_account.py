"""The account of each token of an answer: its probability in the model, and the effect of every sampling stage.

Nothing of it was recorded. The answer is read again behind its prompt (engine/readings.py), and the request's own
sampler goes along, so every figure is the one that a live view of the request would have shown.

Units: probabilities 0 to 1; entropies, divergences and margins in nats; ranks and positions from 1 and from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from cutaway.assemble import Engine
from cutaway.engine import RowStream
from cutaway.ops.protocol import F32
from cutaway.sampling import Sampler
from cutaway.sampling.native_rows import order
from cutaway.sampling.stages.ledger import View, divergence, stage_record
from cutaway.text import Tokenizer
from cutaway.xray.known_answer import KnownAnswer

T = TypeVar("T")


@dataclass(slots=True)
class Cost:
    """What accounts have cost. rows: of logits; tokens: computed for them, cached ones left out; milliseconds: of the
    engine's steps; looking_ms: of what was made of the rows; others_ms: of both, by how much steps of requests were
    longer (for computing by the engine's own prediction)."""

    rows: int = 0
    tokens: int = 0
    milliseconds: float = 0.0
    looking_ms: float = 0.0
    others_ms: float = 0.0

    def add(self, stream: RowStream[Any]) -> None:
        self.rows += stream.count
        self.tokens += stream.tokens
        self.milliseconds += stream.computing_us / 1e3
        self.looking_ms += stream.looking_us / 1e3
        self.others_ms += stream.others_us / 1e3


FORM_STAGES = ("constraint", "reasoning_budget")


@dataclass(frozen=True, slots=True)
class StageAccount:
    """The distribution after one stage; `model` is the model's own.

    kept: tokens that can still be drawn; entropy; kl: D(after || before), what this stage changed; kl_model: D(after ||
    model), what all up to here did (both None where a token came in that was out); probability, rank: of the token that
    was chosen.
    """

    name: str
    kept: int
    entropy: float
    kl: float | None
    kl_model: float | None
    probability: float
    rank: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have come. probability, rank: in the model's distribution; drawn: its probability in the one
    that was drawn from; cut_by: the stage that took it out, None where none did."""

    token: int
    text: str
    probability: float
    rank: int
    drawn: float
    cut_by: str | None


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """One token of the answer. position: from 0; text: what it is, as far as it can be shown alone; bytes: in hex.

    probability, rank, entropy: in the model's distribution; margin: ln of its probability over that of the best other
    token there, below 0 where another was better; drawn: its probability in the distribution drawn from.
    redrawn: what the stages choose now; another one than `token` where the answer cannot be had again.
    end: the end or stop token that was nearest; None if nothing of the kind ends this answer.
    forced: the form of the output (a grammar, a reasoning budget) left this token only.
    """

    position: int
    token: int
    text: str
    bytes: str
    probability: float
    rank: int
    entropy: float
    margin: float | None
    drawn: float
    redrawn: int
    forced: bool
    end: Alternative | None
    alternatives: tuple[Alternative, ...]
    stages: tuple[StageAccount, ...]


def account(
    engine: Engine, known: KnownAnswer, *, key: Hashable = None, best: int = 5, also: Sequence[int] = (),
    first: int = 0, last: int | None = None, cost: Cost | None = None,
) -> Iterator[TokenAccount]:  # fmt: skip
    """Token by token, from `first` to `last` (None: to the end), both from 0.

    key: within which its prefixes are found (see `EngineCore.submit`). best: alternatives of each; also: others that
    are looked at everywhere. cost: takes what it costs.
    Memory does not grow with the answer. Raises what `Engine.read` and the stages raise.
    """
    end = len(known.answer) if last is None else min(last + 1, len(known.answer))
    sampler = sampler_at(engine, known, first, key=key, cost=cost)
    ends = ending_ids(engine, known)

    def told(position: int, row: F32) -> TokenAccount:
        token = known.answer[position]
        review = sampler.review(row, token)
        return _told(engine.tokenizer, review.views, position, token, review.drawn, ends, best, also)

    yield from _looked(engine, known, first, end, told, key, cost)


def sampler_at(
    engine: Engine, known: KnownAnswer, position: int, *, key: Hashable = None, cost: Cost | None = None
) -> Sampler:
    """The sampler that the request had before that token of its answer."""
    sampler = sampler_of(engine, known)
    if not known.params.mirostat:
        for token in known.answer[:position]:
            sampler.accept(token)
        return sampler

    def reviewed(at: int, row: F32) -> None:  # its state depends on what each token was drawn from
        sampler.review(row, known.answer[at])

    for _ in _looked(engine, known, 0, position, reviewed, key, cost):
        pass
    return sampler


def _looked(
    engine: Engine, known: KnownAnswer, first: int, end: int, look: Callable[[int, F32], T], key: Hashable,
    cost: Cost | None,
) -> Iterator[T]:  # fmt: skip
    """What `look` makes of each position of the answer and the row of logits that its token was drawn from."""
    for passage in known.passages():
        start, stop = max(first, passage.start), min(end, passage.end)
        if start >= stop:
            continue
        tokens = [*passage.prompt, *known.answer[: stop - 1]]
        looking = _Positions(look, start)
        with engine.read(tokens, len(passage.prompt) + start - 1, key=key, look=looking) as rows:
            yield from rows
            if cost is not None:
                cost.add(rows)


class _Positions(Generic[T]):
    """Counts the rows from a position of the answer on."""

    def __init__(self, look: Callable[[int, F32], T], first: int) -> None:
        self._look, self._next = look, first

    def __call__(self, row: F32) -> T:
        self._next += 1
        return self._look(self._next - 1, row)


def sampler_of(engine: Engine, known: KnownAnswer) -> Sampler:
    """The sampler that the request had, at its beginning."""
    names = engine.tokenizer
    return Sampler(known.params, seed=known.seed, choice=known.choice, prompt=known.prompt, end_ids=names.end_ids,
                   tokenizer=names)  # fmt: skip


def ending_ids(engine: Engine, known: KnownAnswer) -> tuple[int, ...]:
    """The tokens that end an answer: the model's own, also where ignore_eos lets them pass, and the request's."""
    return tuple(sorted(engine.tokenizer.end_ids.union(int(token) for token in known.params.stop_token_ids)))


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """What a token is, also one without text: control tokens by their name, parts of characters as escapes."""
    if token >= tokenizer.vocab_size:
        return f"<{token}>"
    found = tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")
    return found or tokenizer.piece(token)


def _told(
    tokenizer: Tokenizer, views: tuple[View, ...], position: int, token: int, redrawn: int, ends: Sequence[int],
    best: int, also: Sequence[int],
) -> TokenAccount:  # fmt: skip
    row = views[0].row
    stages = tuple(_stages(views, token))
    best_ids = [int(id) for id in order(row, max(best, 1) + 1) if id != token]
    told = dict.fromkeys([*best_ids[:best], *(id for id in also if id != token and id < len(row))])
    nearest = max((id for id in ends if id < len(row)), key=lambda id: (row[id], -id), default=None)
    return TokenAccount(
        position=position, token=token, text=token_text(tokenizer, token), bytes=tokenizer.token_bytes(token).hex(),
        probability=stages[0].probability, rank=stages[0].rank, entropy=stages[0].entropy,
        margin=float(row[token]) - float(row[best_ids[0]]) if best_ids else None,
        drawn=stages[-1].probability, redrawn=redrawn,
        forced=any(stage.kept == 1 for stage in stages if stage.name in FORM_STAGES),
        end=None if nearest is None else _alternative(tokenizer, views, nearest),
        alternatives=tuple(_alternative(tokenizer, views, id) for id in told),
        stages=stages,
    )  # fmt: skip


def _alternative(tokenizer: Tokenizer, views: tuple[View, ...], token: int) -> Alternative:
    cut = next((view.name for view in views if view.row[token] == -np.inf), None)
    first, last = views[0], views[-1]
    text = token_text(tokenizer, token)
    return Alternative(token, text, first.probability(token), first.rank(token), last.probability(token), cut)


def _stages(views: tuple[View, ...], token: int) -> Iterator[StageAccount]:
    before = views[0]
    for view in views:
        record = stage_record(before, view, token)
        from_model = record.kl if before is views[0] else divergence(view, views[0])
        yield StageAccount(
            record.name, record.kept, record.entropy, _finite(record.kl), _finite(from_model), record.probability,
            record.rank,
        )  # fmt: skip
        before = view


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


