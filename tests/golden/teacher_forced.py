"""A loaded model's logits at the golden positions, and how far they are from the golden ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.model import Decoder, kv_groups, kv_layout
from cutaway.ops.protocol import F32, KVType, Step
from golden import kl

CHUNK, PAGE = 64, 16


@dataclass(frozen=True)
class Distance:
    """kl: nats, float64 [rows]; same: bool [rows], whether the best token is the golden one."""

    kl: NDArray[np.float64]
    same: NDArray[np.bool_]

    @property
    def mean(self) -> float:
        return float(self.kl.mean())

    @property
    def top1(self) -> float:
        return float(self.same.mean())


def logits_in_chunks(
    decoder: Decoder, ids: NDArray[np.int32], first: int = 0, *, key_type: KVType = "bf16", value_type: KVType = "bf16"
) -> Iterator[F32]:
    """Feed the given tokens, regardless of the model's own, and yield the logits of the positions from `first` on:
    float32 [up to 64, vocab], chunk by chunk; a chunk is valid until the next one."""
    groups = kv_groups(decoder.spec)
    pages = -(-len(ids) // PAGE)
    layout = kv_layout(
        decoder.spec, pages=(pages,) * len(groups), page_size=PAGE, key_type=key_type, value_type=value_type
    )
    decoder.open_cache(layout)
    run: Callable[[Step], Any] = decoder.step_function()
    table = np.arange(pages, dtype=np.int32)[None]
    for start in range(0, len(ids), CHUNK):
        tokens = np.asarray(ids[start : start + CHUNK], np.int32)
        rows = np.arange(max(0, first - start), len(tokens), dtype=np.int32)
        positions = np.arange(start, start + len(tokens), dtype=np.int32)
        logits = run(Step(tokens, positions, np.zeros(len(tokens), np.int32), (table,) * len(groups), rows)).values
        if len(rows):
            yield logits


def distance(golden: kl.GoldenLogits, chunks: Iterator[F32]) -> Distance:
    """chunks: as `logits_in_chunks` gives them, for the golden tokens and first position."""
    divergences, same, at = [], [], 0
    for logits in chunks:
        part = rows_of(golden, at, at + len(logits))
        divergences.append(kl.divergence(part, logits))
        same.append(logits.argmax(-1) == part.top_ids[:, 0])
        at += len(logits)
    assert at == len(golden.tail)
    return Distance(np.concatenate(divergences), np.concatenate(same))


def rows_of(golden: kl.GoldenLogits, start: int, stop: int) -> kl.GoldenLogits:
    """Some of the rows."""
    part = slice(start, stop)
    return replace(
        golden, top_ids=golden.top_ids[part], top_logits=golden.top_logits[part], tail=golden.tail[part]
    )
