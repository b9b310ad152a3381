"""Golden logits and how far other logits are from them: Kullback-Leibler divergence with one bucket for the tail.

Per position a golden file holds the 256 largest logits and the log-sum-exp of all others. From golden p to given q:
sum over the 256 of p ln(p / q), plus p_tail ln(p_tail / q_tail), everything else being one outcome. That is at most the
full divergence, and close to it: the tail carries little probability. Used alike for us and for other engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
TOP = 256
STEP = 2.0**-16  # logits are stored as multiples of this: an error of at most 7.7e-6


@dataclass(frozen=True)
class GoldenLogits:
    """Of a sequence of tokens. ids: int32 [tokens]; first: the position of the first row.

    top_ids: int32 [rows, 256], largest logit first; top_logits: float64 [rows, 256]; tail: float64 [rows], the
    log-sum-exp of all other logits.
    """

    ids: NDArray[np.int32]
    first: int
    top_ids: NDArray[np.int32]
    top_logits: NDArray[np.float64]
    tail: NDArray[np.float64]


@dataclass(frozen=True)
class Golden:
    """One model's golden file. text: all positions of mixed_text.txt; long: the last positions of a longer sequence,
    if there is one; prompt, greedy: 64 greedy tokens, int32 [64], after a prompt."""

    text: GoldenLogits
    long: GoldenLogits | None
    prompt: NDArray[np.int32]
    greedy: NDArray[np.int32]


def load_golden(model: str) -> Golden:
    """The golden file of "smollm2", "qwen" or "gemma"."""
    with np.load(FOLDER / f"{model}.npz") as file:
        long = unpack(file, "long_") if "long_ids" in file else None
        return Golden(unpack(file, "text_"), long, file["prompt"], file["greedy"])


def pack(prefix: str, ids: Any, logits: NDArray[np.float32], first: int = 0) -> dict[str, Any]:
    """The arrays of one sequence as they are saved: logits as differences of whole steps, which compress well."""
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :TOP]  # ties: lower id first
    top = np.take_along_axis(logits, order, -1).astype(np.float64)
    others = logits.astype(np.float64)
    np.put_along_axis(others, order, -np.inf, -1)
    whole = np.rint(top / STEP).astype(np.int64)
    assert np.abs(whole).max() < 2**31
    arrays = {
        "ids": np.array(ids, np.int32),
        "first": np.int32(first),
        "top_ids": order.astype(np.int32),
        "steps": np.diff(whole, axis=-1, prepend=0).astype(np.int32),
        "tail": log_sum_exp(others).astype(np.float32),
    }
    return {prefix + name: value for name, value in arrays.items()}


def unpack(file: Any, prefix: str = "") -> GoldenLogits:
    """The inverse of `pack`: file is a mapping of its arrays, read from a file or not."""
    logits = file[prefix + "steps"].astype(np.int64).cumsum(-1) * STEP
    tail = file[prefix + "tail"].astype(np.float64)
    return GoldenLogits(file[prefix + "ids"], int(file[prefix + "first"]), file[prefix + "top_ids"], logits, tail)


def log_sum_exp(x: NDArray[Any]) -> NDArray[np.float64]:
    """Over the last axis, in float64."""
    wide = x.astype(np.float64)
    top = wide.max(-1, keepdims=True)
    return (np.log(np.exp(wide - top).sum(-1, keepdims=True)) + top)[..., 0]


def divergence(golden: GoldenLogits, logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """KL in nats per row. logits: float32 [rows, vocab], whole rows, for the golden rows' positions in order."""
    total = np.logaddexp(log_sum_exp(golden.top_logits), golden.tail)
    log_p, log_p_tail = golden.top_logits - total[:, None], golden.tail - total
    top = logits.max(-1, keepdims=True).astype(np.float64)
    weights = np.exp(logits - top)  # float64, from here on without the golden rows' tokens
    norm = np.log(weights.sum(-1, keepdims=True)) + top
    log_q = np.take_along_axis(logits, golden.top_ids, -1).astype(np.float64) - norm
    np.put_along_axis(weights, golden.top_ids, 0.0, -1)
    log_q_tail = (np.log(weights.sum(-1, keepdims=True)) + top - norm)[:, 0]
    p, p_tail = np.exp(log_p), np.exp(log_p_tail)
    return (p * (log_p - log_q)).sum(-1) + p_tail * (log_p_tail - log_q_tail)


def top1_agreement(golden: GoldenLogits, logits: NDArray[np.float32]) -> float:
    """The share of rows whose largest logit is the golden one."""
    return float((logits.argmax(-1) == golden.top_ids[:, 0]).mean())
