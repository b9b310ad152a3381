"""From an answer that has ended to its record: kept as small as possible, and made whole when it is read."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TypeVar

from cutaway.engine import Finished
from cutaway.engine.notes import UNITS, Notes
from cutaway.errors import RecordError
from cutaway.sampling import SamplingParams, StopReason
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.parameters_json import CONTENTS, withhold_contents
from cutaway.xray.record import Ending, Figures, Level, PrefillChunk, RequestRecord, Slide, System

T = TypeVar("T")
_FIXED = 4_000
"""Bytes of a record without its lists, counted on the safe side."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the answers of one request have in common. path: of the route, or the command. The rest: RequestRecord."""

    request: str
    caller: str
    began: float
    path: str
    system: System
    params: SamplingParams
    clock: float | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer's record in few bytes: lists are arrays, and prompts of several choices are one. size: bytes."""

    head: RequestRecord
    prompt: array[int]
    notes: Notes
    size: int

    @property
    def id(self) -> str:
        return self.head.id

    @property
    def ended(self) -> float:
        """Seconds since 1970."""
        return self.head.began + (self.head.figures.total_ms or 0.0) / 1e3

    def record(self) -> RequestRecord:
        """Whole. Takes microseconds per token."""
        contents, notes = self.head.level == "contents", self.notes
        count = self.head.tokens
        return replace(
            self.head,
            prompt_ids=tuple(self.prompt) if contents else None,
            token_ids=tuple(notes.tokens) if contents else None,
            token_ms=tuple(_ms(time) for time in notes.times),
            ranks=_padded([rank or None for rank in notes.ranks], count),
            probabilities=_padded([None if one < 0 else one for one in notes.probabilities], count),
            hashes=tuple(f"{one:016x}" for one in notes.hashes) if notes.hashing else None,
            chunks=tuple(PrefillChunk(start, tokens, _ms(time)) for start, tokens, time in notes.chunks),
            slides=tuple(Slide(after, prompt if contents else None) for after, prompt in notes.slides),
        )


def _ms(units: int) -> float:
    return units * 1_000 / UNITS


def _padded(found: list[T | None], count: int) -> tuple[T | None, ...] | None:
    """None behind the last one that is known; no list at all where nothing is."""
    return (*found, *[None] * (count - len(found))) if any(one is not None for one in found) else None


def kept(
    origin: Origin, end: Finished, prompt: array[int], level: Level, *, number: int = 0, status: int = 0,
    error: BaseException | None = None, warnings: Sequence[str] = (),
) -> Kept:
    """end: from the engine, with its notes. number: of the prompt within the request. status, error: of the
    reply; the engine's own error counts first. warnings: of the request, beside the answer's."""
    notes = end.notes
    assert notes is not None
    contents = level == "contents"
    params, withheld = (origin.params, ()) if contents else withhold_contents(origin.params)
    head = RequestRecord(
        id=token_hex(8),
        request=origin.request,
        caller=origin.caller,
        began=origin.began,
        path=origin.path,
        level=level,
        system=origin.system,
        parameters=params.replace(stages=()) if params.stages else params,
        seed=end.seed,
        prompt_tokens=len(prompt),
        tokens=len(notes.tokens),
        end=_ending(end, status, error, contents),
        prompt=number,
        choice=end.choice,
        withheld=withheld,
        own_stages=len(origin.params.stages),
        clock=origin.clock,
        figures=_figures(end, notes),
        warnings=tuple(dict.fromkeys([*warnings, *end.warnings])) if contents else (),
    )
    if not contents:
        prompt, notes = array("i"), notes.without_ids()
    return Kept(head, prompt, notes, _size(head, prompt, notes, params))


def _ending(end: Finished, status: int, error: BaseException | None, contents: bool) -> Ending:
    failed = end.error or error
    matched = end.stop.matched if contents or end.stop.kind == "end_token" else None
    message = str(failed)[:1000] if failed is not None and contents else None
    code = None if failed is None else str(getattr(failed, "code", None) or type(failed).__name__)
    return Ending(end.stop.kind, matched, status, code, message)


def _figures(end: Finished, notes: Notes) -> Figures:
    times, usage, broke = end.timings, end.usage, end.broke
    return Figures(
        queued_ms=times.queued * 1e3, prefill_ms=times.prefill * 1e3, decode_ms=times.decode * 1e3,
        total_ms=times.total * 1e3, cached=usage.cached_tokens,
        broke_at=None if broke is None else broke.at, broke_by=None if broke is None else broke.reason,
        pages=notes.pages, preemptions=times.preemptions, drafted=times.drafted, accepted=times.accepted,
    )  # fmt: skip


def _size(head: RequestRecord, prompt: array[int], notes: Notes, params: SamplingParams) -> int:
    """Bytes, counted on the safe side."""
    lists = (prompt, notes.tokens, notes.times, notes.ranks, notes.probabilities, notes.hashes)
    arrays = sum(one.buffer_info()[1] * one.itemsize * 9 // 8 for one in lists)
    chunks = 150 * len(notes.chunks) + sum(40 * len(shorter) for _, shorter in notes.slides)
    texts = sum(len(str(getattr(params, name))) for name in _TEXTS)
    return _FIXED + arrays + chunks + 4 * texts + sum(4 * len(text) for text in head.warnings)


_TEXTS = tuple(
    name for name in SamplingParams.__dataclass_fields__
    if SamplingParams.__dataclass_fields__[name].metadata["parameter"].kind in CONTENTS
)  # fmt: skip


def known_answer(record: RequestRecord) -> KnownAnswer:
    """What accounts of an answer need of its record. Raises RecordError where it holds figures only."""
    if record.prompt_ids is None or record.token_ids is None:
        raise RecordError(
            "this record holds figures only; it has no token ids", hint="serve with --record-level contents"
        )
    stop = StopReason(record.end.kind, record.end.matched, max(0, record.tokens - 1))  # type: ignore[arg-type]
    slides = tuple((one.after, one.prompt or ()) for one in record.slides)
    return KnownAnswer(
        record.prompt_ids, record.token_ids, record.parameters, record.seed, record.choice, stop, slides,
        record.own_stages, record.warnings,
    )  # fmt: skip
