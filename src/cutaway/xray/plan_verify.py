"""Plans held against loaded models whose context was filled: bytes by the allocator, bytes of the process, times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import time
from typing import Any

from cutaway.bench.calibrate import ANSWER as TIMED
from cutaway.ops.backends import open_backend
from cutaway.ops.protocol import KVType
from cutaway.planner.calibration import read_all
from cutaway.planner.latency import Interval
from cutaway.xray.bare_process import bare_process
from cutaway.xray.filled_engine import ANSWER, Filling, filled_engine
from cutaway.xray.plan import Ask, Here, make_plan
from cutaway.xray.planned_model import planned_model

SHORT_CONTEXTS, CONTEXTS = (512, 2048), (512, 2048, 8192)
REQUESTS = (1, 8)
Types = tuple[KVType, KVType]
SHORT_TYPES: tuple[Types, ...] = (("bf16", "bf16"),)
TYPES: tuple[Types, ...] = (("bf16", "bf16"), ("bf16", "int8"), ("int8", "int8"), ("fp8", "fp8"), ("f32", "f32"))
BELOW, BELOW_BYTES = 0.05, 8_000_000  # how far the process may lie below the plan: a share or bytes, whichever is more
ABOVE, ABOVE_BYTES = 0.02, 4_000_000  # and above it


@dataclass(frozen=True, slots=True)
class TimeCheck:
    """Milliseconds. inside: None where the plan says nothing that it stands by (see Predictor.sound)."""

    predicted: Interval | None
    measured: float
    inside: bool | None


@dataclass(frozen=True, slots=True)
class Check:
    """One load. weights, pages, scratch: bytes by the allocator minus the plan's: 0 is exact. planned, measured: bytes
    of anonymous memory. mapped: pages of files, apart. ttft: where one request was alone. tpot: of several only
    where the plan's times are sound."""

    model: str
    context: int
    requests: int
    key_type: KVType
    value_type: KVType
    weights: int
    pages: int
    scratch: int
    planned: int
    measured: int | None
    mapped: int | None
    ttft: TimeCheck | None
    tpot: TimeCheck | None

    @property
    def exact(self) -> bool:
        return self.weights == self.pages == self.scratch == 0

    @property
    def within(self) -> bool | None:
        """Whether the process's memory is as planned; None where it is not known."""
        if self.measured is None:
            return None
        off = self.measured - self.planned
        low, high = max(BELOW * self.planned, BELOW_BYTES), max(ABOVE * self.planned, ABOVE_BYTES)
        return -low <= off <= high


def verify_plan(
    name: str, *, contexts: Sequence[int] = SHORT_CONTEXTS, types: Sequence[Types] = SHORT_TYPES,
    requests: Sequence[int] = REQUESTS, threads: int | None = None, calibrations: Path,
) -> Iterator[Check]:  # fmt: skip
    """Load a model of this machine again and again. calibrations: the folder of `bench calibrate`.

    Raises ModelNotFoundError, and CutawayError where a load fails.
    """
    with planned_model(name) as model:
        path, spec = model.path, model.spec
    process = bare_process(path)
    for context in contexts:
        if context > spec.context:
            continue
        for keys, values in types:
            for count in requests:
                filling = Filling(str(path), context, count, keys, values, threads)
                yield _check(name, filling, process, calibrations)


def _check(name: str, filling: Filling, process: int | None, calibrations: Path) -> Check:
    ask = Ask(filling.context, filling.requests, filling.key_type, filling.value_type)
    backend = open_backend("native", threads=filling.threads)
    with planned_model(name) as model:
        plan = make_plan(model, ask, Here(backend, None, process, time(), read_all(calibrations)))
    sound = plan.predictor is not None and plan.predictor.sound
    found = filled_engine(replace(filling, timed=sound))
    memory, ttft, tpot = plan.memory, None, None
    answer = min(ANSWER, filling.context // 2)
    reached = filling.context - answer // 2 if filling.requests == 1 else filling.context // 2 + TIMED // 2
    if plan.predictor is not None and found["ttft_ms"] is not None:
        ttft = _timed(plan.predictor.first(filling.context - answer), found["ttft_ms"], sound)
    if plan.predictor is not None and found["tpot_ms"] is not None:
        tpot = _timed(plan.predictor.each(filling.requests, reached), found["tpot_ms"], sound)
    return Check(
        model=name,
        context=filling.context,
        requests=filling.requests,
        key_type=filling.key_type,
        value_type=filling.value_type,
        weights=found["weights"] - sum(w.packed for w in memory.weights),
        pages=found["pages"] - memory.kv_bytes,
        scratch=found["scratch"] - memory.scratch,
        planned=plan.total - memory.idle,
        measured=found["anonymous"],
        mapped=found["mapped"],
        ttft=ttft,
        tpot=tpot,
    )


def _timed(predicted: Interval | None, measured: float, sound: bool) -> TimeCheck:
    inside = None if predicted is None or not sound else predicted.low <= measured <= predicted.high
    return TimeCheck(predicted, measured, inside)


def check_json(check: Check) -> dict[str, Any]:
    return asdict(check) | {"exact": check.exact, "within": check.within}
