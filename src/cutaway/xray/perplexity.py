"""How well a model predicts a text: perplexity with its error, by position, and in bits per byte.

The text is cut into windows of the context. Each begins `stride` tokens after the one before, and in each only the
tokens are counted that no earlier window has counted, so every token counts once, and after the first window each has
`window - stride` tokens before it at least. Where the model has a first token (BOS), every window begins with it.

The standard error of the mean is that of means over blocks of BLOCK consecutive tokens: neighbours depend on each
other, and an error computed from single tokens would be too small.

Units: nats for log-likelihoods, bits where it says so; probabilities 0 to 1; positions count from 0 within a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from cutaway.assemble import Engine
from cutaway.errors import ParameterError
from cutaway.ops.protocol import F32

BLOCK = 64
FEWEST_BLOCKS = 8
"""With fewer, the error is unknown."""
EDGES = (0, 16, 64, 256, 1024, 4096, 16384, 65536)
"""Where the ranges of positions begin."""


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens [start, end) of the text; counted are those from `first` on."""

    start: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Scored:
    """A token of the text. position: tokens before it in its window. top: it was the most probable one."""

    nats: float
    position: int
    top: bool


@dataclass(frozen=True, slots=True)
class PositionRange:
    """Tokens with `low` to `high` - 1 tokens before them in their window."""

    low: int
    high: int
    tokens: int
    perplexity: float


@dataclass(frozen=True, slots=True)
class Perplexity:
    """tokens: that were counted; the text's first one is not, where nothing stands before it. error: standard error of
    `perplexity`, None where the text is too short. top: share of tokens that were the most probable. bits_per_byte: of
    the bytes of the counted tokens."""

    tokens: int
    window: int
    stride: int
    nats: float
    perplexity: float
    error: float | None
    top: float
    bits_per_byte: float
    bits_per_character: float
    positions: tuple[PositionRange, ...]
    seconds: float


def windows(count: int, window: int, stride: int, skip: int) -> Iterator[Window]:
    """The windows over `count` tokens. skip: tokens at the beginning of the text that cannot be counted (0 or 1).

    Raises ParameterError where a stride would leave a token without any before it.
    """
    if not 1 <= stride <= window - skip:
        raise ParameterError(f"stride is {stride}; it must be 1 to {window - skip}, the window's own length")
    start, first = 0, skip
    while first < count:
        end = min(start + window, count)
        yield Window(start, first, end)
        first = end
        start = min(start + stride, end - 1)


def perplexity(
    engine: Engine, text: str, *, window: int | None = None, stride: int | None = None,
    progress: Callable[[int, int, float], None] = lambda done, count, nats: None,
) -> Perplexity:  # fmt: skip
    """window: tokens, None: the engine's context; stride: None: half of it. progress: called after each window with
    the tokens counted so far, all of them, and the mean so far.

    Raises ParameterError for a text without a token that can be counted, or for such a window.
    """
    began = perf_counter()
    ids = engine.tokenizer.encode(text, add_special=False)
    head = first_tokens(engine)
    room = engine.context - len(head)
    size = room if window is None else window
    if not 2 <= size <= room:
        raise ParameterError(f"window is {size}; it must be 2 to {room}, what the context of {engine.context} holds")
    step = max(1, size // 2) if stride is None else stride
    skip = 0 if head else 1
    if len(ids) <= skip:
        raise ParameterError("the text has no token that can be counted", hint="a text of two tokens or more")
    scored: list[Scored] = []
    for each in windows(len(ids), size, step, skip):
        scored += _score(engine, [*head, *ids[each.start : each.end]], len(head) + each.first - each.start)
        progress(len(scored), len(ids) - skip, float(np.mean([one.nats for one in scored])))
    size_of = sum(len(engine.tokenizer.token_bytes(id)) for id in ids[skip:])
    characters = len(engine.tokenizer.decode(ids[skip:]))
    return _summary(scored, (size_of, characters), (size, step), perf_counter() - began)


def first_tokens(engine: Engine) -> list[int]:
    """What a prompt of this model begins with: its BOS token, or nothing."""
    special = engine.tokenizer.special
    return [special.bos] if special.add_bos and special.bos is not None else []


def _score(engine: Engine, tokens: Sequence[int], first: int) -> list[Scored]:
    """The tokens from index `first` on."""
    left = iter(tokens[first:])

    def look(row: F32) -> tuple[float, bool]:
        return surprise(row, next(left))

    with engine.read(tokens[:-1], first - 1, key=object(), look=look) as rows:
        return [Scored(nats, first + i, top) for i, (nats, top) in enumerate(rows)]


def surprise(row: F32, token: int) -> tuple[float, bool]:
    """-log of a token's probability in a row of logits, in nats, and whether it is the most probable one."""
    wide = row.astype(np.float64)
    most = float(wide.max())
    total = most + math.log(float(np.exp(wide - most).sum()))
    return total - float(wide[token]), int(wide.argmax()) == token


def _summary(
    scored: Sequence[Scored], text: tuple[int, int], cut: tuple[int, int], seconds: float
) -> Perplexity:  # fmt: skip
    """text: bytes and characters of the counted tokens. cut: window and stride."""
    nats = np.array([one.nats for one in scored])
    mean, bits = float(nats.mean()), float(nats.sum()) / math.log(2)
    deviation = standard_error(nats)
    return Perplexity(
        tokens=len(scored), window=cut[0], stride=cut[1], nats=mean, perplexity=math.exp(mean),
        error=None if deviation is None else math.exp(mean) * deviation,
        top=sum(one.top for one in scored) / len(scored),
        bits_per_byte=bits / max(1, text[0]),
        bits_per_character=bits / max(1, text[1]),
        positions=tuple(_ranges(scored)), seconds=seconds,
    )  # fmt: skip


def standard_error(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    """Of the mean, from the means of blocks; the last values that fill no block are left out of it. None: too few."""
    blocks = len(values) // BLOCK
    if blocks < FEWEST_BLOCKS:
        return None
    means = values[: blocks * BLOCK].reshape(blocks, BLOCK).mean(axis=1)
    return float(means.std(ddof=1) / math.sqrt(blocks))


def _ranges(scored: Sequence[Scored]) -> Iterator[PositionRange]:
    longest = max(one.position for one in scored)
    for low, high in zip(EDGES, (*EDGES[1:], longest + 1), strict=True):
        if found := [one.nats for one in scored if low <= one.position < high]:
            yield PositionRange(low, min(high, longest + 1), len(found), math.exp(sum(found) / len(found)))
