"""The records of a step and a token. They are built only if a recorder wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic, perf_counter

from cutaway.cache import PageTables, PrefixBreak
from cutaway.engine.request import Request
from cutaway.engine.step_plan import Plan
from cutaway.sampling import Choice
from cutaway.text import Tokenizer
from cutaway.trace import NULL, PrefixRecord, Recorder, StepRecord, TokenRecord


def watched(recorder: Recorder, plan: Plan, requests: Mapping[int, Request]) -> set[int]:
    """The requests of a step whose tokens the recorder wants; their stages run one by one."""
    if recorder is NULL:
        return set()
    ids = [chunk.work.id for chunk in plan.chunks]
    return {id for id in ids if recorder.wants("token", requests[id].name)}


class Laps:
    """Milliseconds of the named parts of a step."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self.started = self._last = perf_counter()

    def __call__(self, name: str) -> float:
        """End the current part under this name. Returns its milliseconds."""
        now = perf_counter()
        self.milliseconds[name] = milliseconds = (now - self._last) * 1e3
        self._last = now
        return milliseconds


def step_record(
    step: int, plan: Plan, requests: Sequence[Request], accepted: int, laps: Laps, pages: PageTables
) -> StepRecord:
    """The record of a step. requests: of the plan's chunks."""
    return StepRecord(
        step=step,
        requests=tuple(request.name for request in requests),
        tokens=plan.tokens,
        rows=sum(chunk.rows for chunk in plan.batch),
        milliseconds=dict(laps.milliseconds),
        pages_held=tuple(pool.held for pool in pages.pools),
        drafted=plan.drafted,
        accepted=accepted,
    )


def prefix_record(request: Request, broke: PrefixBreak | None, step: int) -> PrefixRecord:
    begun = PrefixRecord(request.name, request.choice, step, len(request.work.tokens), request.work.computed)
    if broke is None:
        return begun
    return replace(begun, at=broke.at, token=broke.token, reason=broke.reason, expected=broke.expected)


def token_record(request: Request, choice: Choice, step: int, tokenizer: Tokenizer) -> TokenRecord:
    return TokenRecord(
        request=request.name,
        choice=request.choice,
        step=step,
        position=request.outputs - 1,
        id=choice.token,
        bytes=tokenizer.token_bytes(choice.token),
        before=choice.before,
        after=choice.after,
        rank=choice.rank,
        stages=choice.stages,
        times={"chosen": monotonic()},
    )
