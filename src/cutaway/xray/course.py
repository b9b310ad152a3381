"""The course of one request in time: from its arrival to its last token, as it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, sleep
from typing import Any

from cutaway.assemble import Engine
from cutaway.engine import Finished, TokenChosen
from cutaway.sampling import SamplingParams
from cutaway.trace import Kind, Record, StepRecord
from cutaway.xray.record import RequestRecord


@dataclass(frozen=True, slots=True)
class CourseStep:
    """One step. began, ended: milliseconds since the request came. start: position of its first token; tokens: how
    many; reads: whether it read the prompt. parts: milliseconds by name (plan, batch, forward, sample, hand_out); empty
    where they are not known."""

    began: float
    ended: float
    start: int
    tokens: int
    reads: bool
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Course:
    """Milliseconds; None: not known. ids, answer: tokens of prompt and answer, where the record has them.

    template, tokenize: before the request was handed to the engine. queue: until its first step. send: from a token's
    step to its reader, the sum over all tokens, while the next steps run. detokenize: all tokens, measured apart.
    """

    model: str
    messages: int
    prompt_tokens: int
    cached_tokens: int
    ids: Sequence[int] | None
    answer: Sequence[int] | None
    tokens: int
    template: float | None
    tokenize: float | None
    queue: float | None
    steps: tuple[CourseStep, ...]
    send: float | None
    detokenize: float | None
    total: float


class StepKeeper:
    """A recorder of steps alone, with the moment at which each ended."""

    def __init__(self) -> None:
        self.steps: list[tuple[StepRecord, float]] = []

    def wants(self, kind: Kind, request: str | None = None) -> bool:
        return kind == "step"

    def record(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self.steps.append((record, perf_counter()))

    def close(self) -> None:
        """Nothing to close."""


def run_course(
    engine: Engine, keeper: StepKeeper, prompt: str | Sequence[Mapping[str, Any]], params: SamplingParams
) -> Course:
    """Run a prompt, a text or messages, on an engine that has the keeper as its recorder and nothing else to do.

    Raises ContextExceededError, ParameterError, TemplateError, EngineError.
    """
    engine.token_ids(prompt)  # a server has compiled its template and built its tokenizer long before
    keeper.steps.clear()
    arrival = perf_counter()
    segments = None if isinstance(prompt, str) else engine.chat_prompt(prompt)
    rendered = perf_counter()
    ids = engine.tokenizer.encode(str(prompt)) if segments is None else engine.tokenizer.encode_segments(segments)
    submitted = perf_counter()
    answer, received, end = [], [], None
    for event in engine.submit(ids, params.replace(n=1, speculate="off"), key=object()):
        received.append(perf_counter())
        if isinstance(event, TokenChosen):
            answer.append(event.token)
        elif isinstance(event, Finished):
            end = event
    assert end is not None
    if end.error is not None:
        raise end.error
    late = perf_counter() + 1  # the last step is recorded after its events
    while len(_giving(keeper.steps)) < len(answer) and perf_counter() < late:
        sleep(0.001)
    steps = tuple(_steps(keeper.steps, len(ids), end.usage.cached_tokens, arrival, submitted))
    sent = [r - ended for r, (_, ended) in zip(received, _giving(keeper.steps), strict=False)]
    return Course(
        engine.path.stem, 0 if isinstance(prompt, str) else len(prompt), len(ids), end.usage.cached_tokens, ids, answer,
        len(answer), None if segments is None else 1e3 * (rendered - arrival), 1e3 * (submitted - rendered),
        1e3 * end.timings.queued, steps, 1e3 * sum(max(0.0, s) for s in sent), _detokenizing(engine, answer),
        1e3 * (received[-1] - arrival),
    )  # fmt: skip


def _giving(steps: Sequence[tuple[StepRecord, float]]) -> list[tuple[StepRecord, float]]:
    """The steps that gave a token."""
    return [(record, ended) for record, ended in steps if record.rows]


def _steps(
    kept: Sequence[tuple[StepRecord, float]], prompt: int, cached: int, arrival: float, submitted: float
) -> list[CourseStep]:
    made: list[CourseStep] = []
    place, before = cached, submitted
    for record, ended in kept:
        parts = dict(record.milliseconds)
        began = max(before, ended - sum(parts.values()) / 1e3) if not made else before
        parts["hand_out"] = max(0.0, 1e3 * (ended - began) - sum(parts.values()))
        made.append(
            CourseStep(1e3 * (began - arrival), 1e3 * (ended - arrival), place, record.tokens, place < prompt, parts)
        )
        place, before = place + record.tokens, ended
    return made


def _detokenizing(engine: Engine, answer: Sequence[int]) -> float:
    detokenizer = engine.tokenizer.detokenizer()
    began = perf_counter()
    for token in answer:
        detokenizer.push(token)
    detokenizer.flush()
    return 1e3 * (perf_counter() - began)


def recorded_course(record: RequestRecord) -> Course:
    """The course of a served request, from its record. Times begin when the prompt was submitted."""
    steps: list[CourseStep] = []
    before = record.figures.queued_ms or 0.0
    for chunk in record.chunks:
        steps.append(CourseStep(before, chunk.done_ms, chunk.start, chunk.tokens, True))
        before = chunk.done_ms
    for number, at in enumerate(record.token_ms):
        if number:  # the first comes out of the prompt's last chunk
            steps.append(CourseStep(before, max(before, at), record.prompt_tokens + number - 1, 1, False))
        before = max(before, at)
    total = record.figures.total_ms
    return Course(
        record.system.model, 0, record.prompt_tokens, record.figures.cached, record.prompt_ids, record.token_ids,
        record.tokens, None, None, record.figures.queued_ms, tuple(steps), None, None,
        before if total is None else total,
    )  # fmt: skip
