"""Measures a model for the planner: first tokens of prompts, and further tokens of one and of many requests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cutaway.assemble import Engine
from cutaway.bench.cost import step_costs, total
from cutaway.formats import open_model
from cutaway.model import read_spec
from cutaway.ops.backends import open_backend
from cutaway.ops.protocol import KVLayout, KVType, Step
from cutaway.planner import ModelOutline, outline_model
from cutaway.planner.calibration import Calibration, Sample, identity_of
from cutaway.planner.latency import Work
from cutaway.sampling import SamplingParams

CONTEXTS = (128, 512, 1024, 2048, 4096)
REQUESTS = (1, 4, 8)
ANSWER = 24  # tokens that are timed
ROUNDS = 3
ROOM = 512  # tokens that the first of several requests may produce until the last has its first
MOST_SECONDS = 240.0


def calibrate(
    path: Path, name: str, *, kv_k: KVType = "bf16", kv_v: KVType = "bf16", threads: int | None = None,
    contexts: Sequence[int] = CONTEXTS, requests: Sequence[int] = REQUESTS, rounds: int = ROUNDS,
    seconds: float = MOST_SECONDS, progress: Callable[[str], None] = lambda text: None,
) -> Calibration:  # fmt: skip
    """Load the model as a server does and time it, the short contexts first; after `seconds` no other begins.

    Raises what `Engine.load` raises.
    """
    with open_model(path) as file:
        backend = open_backend("native", threads=threads)
        outline = outline_model(file, read_spec(file), backend)
    longest = [c for c in contexts if c + ROOM <= outline.spec.context] or [max(1, outline.spec.context - ROOM)]
    began, idle = time.monotonic(), _busy_clock()
    samples: list[Sample] = []
    engine = Engine.load(
        path, context=max(longest) + ROOM, contexts=max(requests), threads=threads, kv_k=kv_k, kv_v=kv_v
    )
    with engine:
        time_one(engine, 1, 32)  # warm
        for context in longest:
            for count in requests if context <= 2048 else requests[:1]:
                if time.monotonic() - began > seconds and len(samples) > 5:
                    break
                progress(f"{count} x {context} tokens")
                timed = [time_one(engine, count, context) for _ in range(rounds if context <= 2048 else 1)]
                if count == 1:
                    samples.append(Sample(True, 1, context, tuple(first for first, _ in timed)))
                samples.append(Sample(False, count, context + ANSWER // 2, tuple(each for _, each in timed)))
    about, work = backend.describe(), work_of(outline, kv_k, kv_v)
    return Calibration(
        name, identity_of(path), about.instruction_set, about.threads.count, kv_k, kv_v, time.time(), idle(),
        tuple(samples),
        work.step_bytes, work.token_operations, work.position_bytes, work.pair_operations, work.integer,
    )  # fmt: skip


def time_one(engine: Engine, requests: int, context: int, room: int = ROOM) -> tuple[float, float]:
    """Milliseconds to the first token of the first of so many prompts, and per further token while all decode.

    The prompts are random ids, so that no prefix is cached. Where several prompts come at once, only their decoding
    together is timed: from the moment when the last has its first token. room: tokens that each may produce by then.
    """
    rng = np.random.default_rng()
    params = SamplingParams(temperature=0.0, max_tokens=ANSWER if requests == 1 else room - 1, ignore_eos=True)
    prompts = [[int(t) for t in rng.integers(0, engine.spec.vocab, context)] for _ in range(requests)]
    begun, times = time.perf_counter(), []
    streams = [engine.stream(prompt, params) for prompt in prompts]
    for delta in streams[-1]:
        if delta.token is not None:
            times.append(time.perf_counter())
        if len(times) > ANSWER - 1:
            break
    for stream in streams:
        stream.close()
    gaps = np.diff(times)
    return (times[0] - begun) * 1e3, float(np.median(gaps)) * 1e3


def work_of(outline: ModelOutline, kv_k: KVType, kv_v: KVType) -> Work:
    """Bytes and operations of the model, counted over its outline."""
    layout = outline.layout(4096, 1, kv_k, kv_v)
    decoder = outline.opened(kv_k, kv_v)
    step, prompt = (step_costs(decoder, layout, _step(layout, n, position)) for n, position in ((1, 1000), (64, 0)))
    attention, rest = total([c for c in step if c.op == "attend"]), total([c for c in step if c.op != "attend"])
    products = total([c for c in prompt if c.op not in ("attend", "logits")])
    return Work(
        step_bytes=rest.bytes,
        token_operations=sum(products.operations.values()) / 64,
        position_bytes=attention.bytes / 1001,
        pair_operations=sum(attention.operations.values()) / 1001,
        integer=rest.operations["int8"] > 0.5 * sum(rest.operations.values()),
        experts=outline.spec.experts is not None,
    )


def _step(layout: KVLayout, tokens: int, position: int) -> Step:
    """Tokens of one request from a position on; logits of the last."""
    positions = np.arange(position, position + tokens, dtype=np.int32)
    width = -(-(position + tokens) // layout.page_size)
    tables = tuple(np.zeros((1, width), np.int32) for _ in layout.groups)
    return Step(positions, positions, np.zeros(tokens, np.int32), tables, np.array([tokens - 1], np.int32))


def _busy_clock() -> Callable[[], float | None]:
    """Starts now; returns the share of the processors that others took until it is called."""
    begun = _processor_seconds()

    def busy() -> float | None:
        now = _processor_seconds()
        if begun is None or now is None or now[0] <= begun[0]:
            return None
        worked, own = now[1] - begun[1], now[2] - begun[2]
        return max(0.0, worked - own) / (now[0] - begun[0])

    return busy


def _processor_seconds() -> tuple[float, float, float] | None:
    """(seconds of all processors, seconds in which they were busy, our own), from /proc/stat."""
    try:
        fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    tick = os.sysconf("SC_CLK_TCK")
    own = os.times()
    return sum(fields) / tick, (sum(fields) - fields[3] - fields[4]) / tick, own.user + own.system
