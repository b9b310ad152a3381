"""The records of a run: plain frozen values, each a JSON object with a `record` field that names its kind.

Units: times are seconds on the engine's monotonic clock, durations milliseconds, entropies and divergences nats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One sampling stage over one row of logits.

    name: of the stage. kept: the candidates after it. entropy: of the distribution after it, in nats. kl: D(after ||
    before), the change by this stage alone, in nats. probability, rank: of the token that was finally chosen, after
    this stage (rank from 1, among all tokens; a removed token ranks after the candidates).
    """

    name: str
    kept: int
    entropy: float
    kl: float
    probability: float
    rank: int


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One chosen token. request: the id of the request, the caller's own if it gave one.

    bytes: what it adds to the text. before, after: its probability in the model's own distribution and in the sampled
    one. rank: its place in the model's distribution, from 1. position: its place in the output, from 0. times: named
    moments, for instance `started` and `chosen`.
    """

    request: str
    choice: int
    step: int
    position: int
    id: int
    bytes: bytes
    before: float | None
    after: float | None
    rank: int | None
    stages: tuple[StageRecord, ...] = ()
    times: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One forward pass. tokens: all tokens of the step. rows: those whose logits are needed. milliseconds: per named
    part (`plan`, `batch`, `forward`, `sample`, ...). pages_held: pages in use after it, per group of layers.
    drafted: tokens of the step that are drafts. accepted: those drafts that were then chosen."""

    step: int
    requests: tuple[str, ...]
    tokens: int
    rows: int
    milliseconds: Mapping[str, float]
    pages_held: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class PrefixRecord:
    """A request begins, or begins again after its pages were taken. tokens: of the request. cached: those whose keys
    and values were in the cache. at, token, reason: the first one that was not, and why ("prompt_changed",
    "evicted", "never_seen"), None if there was none. expected: the tokens of earlier requests at this place, if the
    prompt changed."""

    request: str
    choice: int
    step: int
    tokens: int
    cached: int
    at: int | None = None
    token: int | None = None
    reason: str | None = None
    expected: tuple[int, ...] = ()


Record = StageRecord | TokenRecord | StepRecord | PrefixRecord

_KINDS = {StageRecord: "stage", TokenRecord: "token", StepRecord: "step", PrefixRecord: "prefix"}


def as_json(record: Record) -> dict[str, Any]:
    """`record` as a JSON object: bytes as hex, numbers that JSON cannot represent (NaN, infinities) as null."""
    return {"record": _KINDS[type(record)]} | {f.name: _plain(getattr(record, f.name)) for f in fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, StageRecord):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a NumPy number
        return _plain(value.item())
    return value
