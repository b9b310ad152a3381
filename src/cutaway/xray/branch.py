"""An answer continued otherwise from one of its tokens: with another token, without a stage, with other parameters.

The seed stays, and random numbers are drawn by the position in the output, so only what was changed makes a
difference. Each branch comes with a check of itself: the same way with nothing changed must give the answer again.
Tokens are computed one by one behind all requests (engine/readings.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

from cutaway.assemble import Engine
from cutaway.errors import ParameterError, RecordError
from cutaway.sampling import STAGES, SamplingParams
from cutaway.sampling.params import PARAMETERS
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.record import same_answer
from cutaway.xray.way import Way

LENGTH = 64
"""Tokens of a branch, by default."""
MOST = 4096
_FIXED = ("n", "seed", "logprobs", "prompt_logprobs", "logprobs_mode", "stages", "time_limit", "speculate")
"""Parameters that a branch keeps, that change no token, or that it has no place for."""


@dataclass(frozen=True, slots=True)
class Change:
    """A parameter, and its values in the record and in the branch."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Continuation:
    """tokens: from the branching point on; text: theirs; ended: why it ended before its length was reached (a
    StopKind), None: it did not. parts: index of the first of them that is not the answer's own; None: all are."""

    tokens: tuple[int, ...]
    text: str
    ended: str | None
    parts: int | None


@dataclass(frozen=True, slots=True)
class Branch:
    """at: token of the answer from which on it is another way, from 0. forced: the token that was put there, None where
    it was drawn. branch, answer: the new way, and as much of the recorded one. checked: tokens of the recorded answer
    that the unchanged way was to give again; check: how many it gave, from the beginning on."""

    at: int
    forced: int | None
    changes: tuple[Change, ...]
    branch: Continuation
    answer: Continuation
    checked: int
    check: int
    milliseconds: float

    @property
    def sound(self) -> bool:
        """Whether the unchanged way gives the answer again, so that what differs is due to the change."""
        return self.check == self.checked


def branch(
    engine: Engine, known: KnownAnswer, at: int, *, token: int | None = None, without: Sequence[str] = (),
    values: Mapping[str, Any] | None = None, length: int = LENGTH, key: Hashable = None,
) -> Branch:  # fmt: skip
    """token: put at `at`; None: one is drawn there, too. without: stages that are switched off. values: of parameters.

    Raises ParameterError for what cannot be changed or is not there, RecordError where own stages are missing, and
    what `Engine.read` raises.
    """
    if not 0 <= at < len(known.answer):
        raise ParameterError(f"token {at} does not exist; the answer has {len(known.answer)} tokens, from 0")
    if not 1 <= length <= MOST:
        raise ParameterError(f"length is {length}; it must be 1 to {MOST}")
    if wrong := [token for token in known.answer if not 0 <= token < engine.spec.vocab]:
        raise RecordError(f"the answer has token {wrong[0]}; this model has {engine.spec.vocab}")
    known.check_stages()
    began = perf_counter()
    changed = replace(known, params=changed_params(known.params, without, values or {}))
    if token is None and changed.params == known.params:
        raise ParameterError("nothing is changed: name a token, a stage or a parameter")
    there = Way(engine, changed, at, key).follow(token, length)
    again = Way(engine, known, at, key).follow(known.answer[at], min(length, len(known.answer) - at))
    own = known.answer[at : at + length]
    check = same_answer(again[0], own)
    return Branch(
        at=at, forced=token, changes=_changes(known.params, changed.params),
        branch=Continuation(*there, same_answer(there[0], own[: len(there[0])])),
        answer=Continuation(own, engine.tokenizer.decode(list(own)), None, None),
        checked=len(own), check=len(own) if check is None else check,
        milliseconds=(perf_counter() - began) * 1e3,
    )  # fmt: skip


def changed_params(params: SamplingParams, without: Sequence[str], values: Mapping[str, Any]) -> SamplingParams:
    """Raises ParameterError."""
    changes: dict[str, Any] = {}
    for stage in without:
        named = [p for p in PARAMETERS if p.stage_name == stage]
        if not named or stage not in STAGES:
            raise ParameterError(f"there is no stage {stage!r}; known are {', '.join(STAGES)}")
        active = {p.name: p.default for p in named if getattr(params, p.name) != p.default}
        if not active:
            raise ParameterError(f"this request did not run the stage {stage!r}; nothing would change")
        changes |= active
    if wrong := sorted(set(_FIXED) & values.keys()):
        raise ParameterError(f"{wrong[0]} cannot be changed in a branch")
    return params.replace(**changes | dict(values))


def _changes(before: SamplingParams, after: SamplingParams) -> tuple[Change, ...]:
    pairs = [(p.name, getattr(before, p.name), getattr(after, p.name)) for p in PARAMETERS]
    return tuple(Change(*pair) for pair in pairs if pair[1] != pair[2])


def branch_json(done: Branch) -> dict[str, Any]:
    """As a JSON object; `sound`: whether the unchanged way gave the answer again."""
    return {"record": "branch", **asdict(done), "sound": done.sound}
