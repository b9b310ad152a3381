"""A server under load: concurrent requests or a rate of arrivals, and the latencies of its users."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from cutaway.bench.client import Answer, Target
from cutaway.bench.conversations import Question

PERCENTILES = (50, 90, 99)
MEASURES = ("ttft", "tpot", "itl", "e2e")
"""Time to the first token; per token after it; between two pieces; of a whole request. Seconds."""


@dataclass(frozen=True, slots=True)
class Load:
    """concurrency: requests at once, each followed by the next; or rate: random arrivals per second (Poisson)."""

    concurrency: int = 0
    rate: float = 0.0

    @property
    def label(self) -> str:
        return f"{self.concurrency} at once" if self.concurrency else f"{self.rate:g} a second"


@dataclass(frozen=True, slots=True)
class Outcome:
    """percentiles: per measure, seconds at PERCENTILES (empty if nothing was answered). errors: which, how often."""

    load: Load
    requests: int
    seconds: float
    prompt_tokens: int
    tokens: int
    percentiles: Mapping[str, tuple[float, ...]]
    errors: Mapping[str, int]

    @property
    def answered(self) -> int:
        return self.requests - sum(self.errors.values())


def run_load(
    target: Target, load: Load, questions: Sequence[Question], *, headers: Mapping[str, str], timeout: float, seed: int
) -> Outcome:
    """Send all requests under one load and wait for all answers."""
    return asyncio.run(_run(target, load, questions, headers, timeout, seed))


async def _run(
    target: Target, load: Load, questions: Sequence[Question], headers: Mapping[str, str], timeout: float, seed: int
) -> Outcome:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(headers=dict(headers), timeout=timeout, limits=limits) as client:
        begin = time.perf_counter()
        if load.concurrency:
            answers = await _at_once(target, client, questions, load.concurrency)
        else:
            answers = await _arriving(target, client, questions, load.rate, seed)
        return outcome(load, answers, time.perf_counter() - begin)


async def _at_once(
    target: Target, client: httpx.AsyncClient, questions: Sequence[Question], concurrency: int
) -> list[Answer]:
    waiting = iter(questions)
    answers: list[Answer] = []

    async def user() -> None:
        for question in waiting:  # shared: the first free client takes the next one
            answers.append(await target.ask(client, question))

    await asyncio.gather(*(user() for _ in range(concurrency)))
    return answers


async def _arriving(
    target: Target, client: httpx.AsyncClient, questions: Sequence[Question], rate: float, seed: int
) -> list[Answer]:
    draw = random.Random(f"{seed} arrivals")
    due, begin, asked = 0.0, time.perf_counter(), []
    for question in questions:
        await asyncio.sleep(max(0.0, due - (time.perf_counter() - begin)))
        asked.append(asyncio.create_task(target.ask(client, question)))
        due += draw.expovariate(rate)
    return list(await asyncio.gather(*asked))


def outcome(load: Load, answers: Sequence[Answer], seconds: float) -> Outcome:
    """The summary of the answers. Failed ones count only as errors."""
    good = [answer for answer in answers if not answer.error]
    values: dict[str, list[float]] = {
        "ttft": [a.first for a in good],
        "tpot": [a.per_token for a in good if a.per_token is not None],
        "itl": [gap for a in good for gap in a.gaps],
        "e2e": [a.whole for a in good],
    }
    return Outcome(
        load,
        len(answers),
        seconds,
        sum(a.prompt_tokens for a in good),
        sum(a.tokens for a in good),
        {name: percentiles(values[name]) for name in MEASURES},
        dict(Counter(a.error for a in answers if a.error)),
    )


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(v) for v in np.percentile(values, PERCENTILES)) if values else ()


HEADINGS = (
    "load", "requests", "errors", "requests/s", "tokens/s", "TTFT p50", "p90", "p99", "TPOT p50", "p90", "p99",
    "ITL p50", "p99", "whole p50", "p99",
)  # fmt: skip


def outcome_row(o: Outcome) -> list[str]:
    """One line under HEADINGS; times in milliseconds, whole requests in seconds."""
    ttft, tpot, itl, whole = (o.percentiles[name] for name in MEASURES)
    return [
        *(o.load.label, str(o.requests), str(sum(o.errors.values()))),
        *(f"{o.answered / o.seconds:.2f}", f"{o.tokens / o.seconds:.1f}"),
        *_milliseconds(ttft, (0, 1, 2)),
        *_milliseconds(tpot, (0, 1, 2)),
        *_milliseconds(itl, (0, 2)),
        *(f"{whole[i]:.2f}" if whole else "" for i in (0, 2)),
    ]


def _milliseconds(values: Sequence[float], places: Sequence[int]) -> list[str]:
    return [f"{1e3 * values[i]:.0f}" if values else "" for i in places]


def outcome_json(o: Outcome) -> dict[str, Any]:
    return {
        "concurrency": o.load.concurrency or None,
        "rate": o.load.rate or None,
        "requests": o.requests,
        "answered": o.answered,
        "errors": dict(o.errors),
        "seconds": o.seconds,
        "requests_per_second": o.answered / o.seconds,
        "prompt_tokens": o.prompt_tokens,
        "completion_tokens": o.tokens,
        "tokens_per_second": o.tokens / o.seconds,
        **{
            name: {f"p{p}": value for p, value in zip(PERCENTILES, values, strict=False)}
            for name, values in o.percentiles.items()
        },
    }
