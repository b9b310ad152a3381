"""What was measured of a model on this machine, and the lines fitted to it. `bench/calibrate.py` measures and writes;
the planner only reads.

    TTFT(n)          = fixed + token * n + pair * n (n + 1) / 2        n: tokens of the prompt, one request alone
    TPOT(r, context) = base(r) + position * r * context                r: requests that decode at once
    base(r)          a line between the numbers of requests that were measured
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """A measurement. requests: at once; context: tokens of each before the one that was timed; ms: one per round, of
    the first token (`first`) or of each further one."""

    first: bool
    requests: int
    context: int
    ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """One model, its types of keys and values, a number of threads and an instruction set.

    identity: of the file, see `identity_of`. made: seconds since the epoch. busy: the share of the processors that
    other processes took meanwhile, None where it is not known. step_bytes, token_operations, position_bytes,
    pair_operations: what a step reads, what a token of a prompt computes, and what attention reads and computes per
    position, from the same counting as `bench --ops`: rates for other models follow from them.
    """

    model: str
    identity: str
    instruction_set: str
    threads: int
    kv_k: str
    kv_v: str
    made: float
    busy: float | None
    samples: tuple[Sample, ...]
    step_bytes: float
    token_operations: float
    position_bytes: float
    pair_operations: float
    integer: bool

    @property
    def file_name(self) -> str:
        return f"{self.identity[:16]}-{self.instruction_set}-{self.threads}-{self.kv_k}-{self.kv_v}.json"


@dataclass(frozen=True, slots=True)
class Lines:
    """The fitted lines, in ms, and how far measurements lie from them, relative (see `spread_of`)."""

    fixed: float
    token: float
    pair: float
    bases: tuple[tuple[int, float], ...]
    position: float
    first_spread: float
    each_spread: float

    def first(self, tokens: int) -> float:
        return self.fixed + self.token * tokens + self.pair * tokens * (tokens + 1) / 2

    def each(self, requests: int, context: float) -> float:
        return self.base(requests) + self.position * requests * context

    def base(self, requests: int) -> float:
        """Between the measured numbers; beyond the last, on along the last piece."""
        known = self.bases
        if len(known) == 1:
            return known[0][1]
        at = next((i for i in range(1, len(known)) if requests <= known[i][0]), len(known) - 1)
        (r0, t0), (r1, t1) = known[at - 1], known[at]
        return max(t0 + (t1 - t0) * (requests - r0) / (r1 - r0), 1e-6)


def fit(calibration: Calibration) -> Lines:
    """Least squares of relative errors, no coefficient below zero."""
    firsts = [s for s in calibration.samples if s.first]
    each = [s for s in calibration.samples if not s.first]
    counts = sorted({s.requests for s in each})
    first = _solve(
        [(1.0, s.context, s.context * (s.context + 1) / 2) for s in firsts], [median(s.ms) for s in firsts]
    )  # fmt: skip
    rows = [(*(float(s.requests == n) for n in counts), float(s.requests * s.context)) for s in each]
    more = _solve(rows, [median(s.ms) for s in each])
    bases = tuple(zip(counts, more[:-1], strict=True))
    lines = Lines(first[0], first[1], first[2], bases, more[-1], 0.0, 0.0)
    errors = [[t / lines.first(s.context) - 1 for t in s.ms] for s in firsts], [
        [t / lines.each(s.requests, s.context) - 1 for t in s.ms] for s in each
    ]
    spreads = (spread_of([e for one in part for e in one]) for part in errors)
    return Lines(first[0], first[1], first[2], bases, more[-1], *spreads)


def spread_of(errors: Sequence[float]) -> float:
    """The relative error that nine of ten measurements stay within."""
    ordered = sorted(abs(e) for e in errors)
    return ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))] if ordered else 0.0


def _solve(rows: Sequence[Sequence[float]], times: Sequence[float]) -> list[float]:
    """Non-negative least squares by coordinate descent, each row divided by its time."""
    a = np.array([[x / t for x in row] for row, t in zip(rows, times, strict=True)])
    scale = np.maximum(np.abs(a).max(0), 1e-30)
    a = a / scale
    gram, right = a.T @ a, a.T @ np.ones(len(rows))
    x = np.zeros(len(scale))
    for _ in range(20_000):
        before = x.copy()
        for i in range(len(x)):
            x[i] = max(0.0, x[i] + (right[i] - gram[i] @ x) / gram[i, i]) if gram[i, i] > 0 else 0.0
        if np.abs(x - before).max() < 1e-12:
            break
    return [float(v) for v in x / scale]


def identity_of(path: Path) -> str:
    """A hash of the names, sizes and times of a model's files, which identifies them without reading them."""
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    facts = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


# --- files ------------------------------------------------------------------------------------------------------------
def save(calibration: Calibration, folder: Path) -> Path:
    """Write it, whole or not at all. Returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / calibration.file_name
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"format": FORMAT, **asdict(calibration)}, indent=1), encoding="utf-8")
    part.replace(path)
    return path


def read_all(folder: Path) -> list[Calibration]:
    """Every calibration in a folder, the newest first. What cannot be read is left out."""
    found = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if entry.pop("format", None) != FORMAT:
                continue
            samples = tuple(Sample(**{**s, "ms": tuple(s["ms"])}) for s in entry.pop("samples"))
            found.append(Calibration(samples=samples, **entry))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
    return sorted(found, key=lambda c: -c.made)
