"""One line of `cutaway plan --verify`: a model loaded in a process of its own, its context filled, and measured.

    python -m cutaway.xray.filled_engine JSON      prints one JSON object
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from cutaway.errors import CutawayError
from cutaway.ops.process_memory import resident
from cutaway.ops.protocol import KVType

ANSWER = 16  # tokens with which each request ends at the last one that its context holds
MOST_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Filling:
    """How a model is loaded and filled. requests: so many at once, each up to its last token of context. timed: whether
    several requests are timed while they decode together, each with half of its context, before they fill it."""

    path: str
    context: int
    requests: int
    key_type: KVType
    value_type: KVType
    threads: int | None = None
    timed: bool = False


def filled_engine(filling: Filling) -> dict[str, Any]:
    """Load, fill and measure, in a process of its own. Raises CutawayError with the last line that it printed."""
    command = [sys.executable, "-m", "cutaway.xray.filled_engine", json.dumps(asdict(filling))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    if done.returncode:
        raise CutawayError(f"verifying {filling.path} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def measure(filling: Filling) -> dict[str, Any]:
    """In this process. Bytes by the allocator and of the process, and the milliseconds of the first request."""
    import numpy as np

    from cutaway.assemble import Engine
    from cutaway.bench.calibrate import time_one
    from cutaway.ops.held_memory import held_now
    from cutaway.sampling import SamplingParams

    engine = Engine.load(
        filling.path, context=filling.context, contexts=filling.requests, kv_k=filling.key_type,
        kv_v=filling.value_type, threads=filling.threads, max_requests=max(filling.requests, 1), pull=False,
    )  # fmt: skip
    with engine:
        engine.tokenizer.prepare()  # as a server does, and every request that brings a text
        together, half = None, filling.context // 2
        if filling.timed and filling.requests > 1:
            together = time_one(engine, filling.requests, half, half)[1]
        rng = np.random.default_rng(1)
        answer = min(ANSWER, half)
        prompts = [
            [int(t) for t in rng.integers(0, engine.spec.vocab, filling.context - answer)]
            for _ in range(filling.requests)
        ]
        params = SamplingParams(temperature=0.0, max_tokens=answer, ignore_eos=True)
        begun = time.perf_counter()
        streams = [engine.stream(prompt, params) for prompt in prompts]
        times = [time.perf_counter() for delta in streams[-1] if delta.token is not None]
        for stream in streams[:-1]:
            stream.result()
        held, found, plan = held_now(), resident(), engine.memory
    gaps = sorted(b - a for a, b in pairwise(times))
    return {
        **asdict(held),
        "planned_weights": sum(w.packed for w in plan.weights),
        "planned_pages": plan.kv_bytes,
        "planned_scratch": plan.scratch,
        "planned_vectors": plan.vectors + plan.positions,
        "planned_idle": plan.idle,
        "anonymous": None if found is None else found.anonymous,
        "mapped": None if found is None else found.mapped,
        "ttft_ms": (times[0] - begun) * 1e3 if filling.requests == 1 else None,
        "tpot_ms": together if filling.requests > 1 else gaps[len(gaps) // 2] * 1e3,
    }


if __name__ == "__main__":
    print(json.dumps(measure(Filling(**json.loads(sys.argv[1])))))
