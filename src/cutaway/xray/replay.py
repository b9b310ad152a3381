"""A record run again: is it the same answer, bit for bit, and if not, where does it part, and why might it.

The same request gives the same bits, whatever else runs and however its prompt is cut; so a record made among many
requests, with preemptions and cache hits, is replayed alone. What ended by time, by a cancel or by an error is replayed
as a forced length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from cutaway.assemble import Engine
from cutaway.engine import Finished, Shorten, TokenChosen
from cutaway.engine.notes import Notes
from cutaway.text import Tokenizer
from cutaway.xray.record import RequestRecord, Slide, System, same_answer
from cutaway.xray.recorded import known_answer
from cutaway.xray.same_start import same_start
from cutaway.xray.system import system_of

_COMPARED = (
    "sha256", "adapter", "build", "instruction_set", "backend", "template", "kv_k", "kv_v", "context", "rope_scaling"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """What computed the record, and what computes here, where they differ. None: not known."""

    name: str
    recorded: str | int | None
    here: str | int | None


@dataclass(frozen=True, slots=True)
class Parting:
    """The first step that differs. at: token of the answer, from 0; by: "token", or "logits" where the tokens are still
    equal and the hashes are not. recorded, here: the tokens, None where an answer had ended; texts: of these.
    margin: ln of the recorded token's probability over that of the one here, in the model's distribution here."""

    at: int
    by: str
    recorded: int | None
    here: int | None
    recorded_text: str | None
    here_text: str | None
    margin: float | None


@dataclass(frozen=True, slots=True)
class Replay:
    """record: its id. tokens: of the record; equal: of them, from the beginning on, also in their logits where both
    sides have hashes; hashes: compared. forced: the length was the record's, since something outside the tokens ended
    it. end, recorded_end: kinds; None for `end` where the length was forced. parting: None: all is equal."""

    record: str
    request: str
    model: str
    tokens: int
    equal: int
    hashes: int
    forced: bool
    end: str | None
    recorded_end: str
    parting: Parting | None
    differences: tuple[SystemDifference, ...]
    milliseconds: float

    @property
    def same(self) -> bool:
        """Whether it is the same answer, and ended alike."""
        return self.parting is None and (self.forced or self.end == self.recorded_end)


def engine_for(record: RequestRecord, model: str | None = None, threads: int | None = None) -> Engine:
    """An engine as the record says it was. model: instead of the record's. Nothing is fetched. Raises what
    `Engine.load` raises."""
    system = record.system
    return Engine.load(
        model or system.source or system.model, context=system.context, threads=threads,
        backend=system.backend, kv_k=system.kv_k, kv_v=system.kv_v,  # type: ignore[arg-type]  # load checks them
        rope_scaling=system.rope_scaling, contexts=1, max_requests=1, pull=False,
        record_hashes=record.hashes is not None,
    )  # fmt: skip


def replay(engine: Engine, record: RequestRecord) -> Replay:
    """Run it again. Raises RecordError where it holds figures only or own stages, and what `Engine.submit` raises."""
    known_answer(record).check_stages()
    began = perf_counter()
    notes, end = _run(engine, record)
    took = (perf_counter() - began) * 1e3
    here = list(notes.tokens[: record.tokens] if record.forced_length else notes.tokens)
    hashes = [f"{one:016x}" for one in notes.hashes]
    parting = _parting(engine, record, here, hashes)
    return Replay(
        record=record.id, request=record.request, model=record.system.model, tokens=record.tokens,
        equal=record.tokens if parting is None else parting.at,
        hashes=min(len(hashes), record.tokens) if record.hashes is not None else 0,
        forced=record.forced_length, end=None if record.forced_length else end, recorded_end=record.end.kind,
        parting=parting, differences=_differences(record.system, system_of(engine)), milliseconds=took,
    )  # fmt: skip


def _run(engine: Engine, record: RequestRecord) -> tuple[Notes, str]:
    """The answer's notes and how it ended. One whose length is forced is cancelled when it has that."""
    assert record.prompt_ids is not None
    params = record.parameters.replace(
        n=record.choice + 1, seed=record.seed, time_limit=None, logprobs=None, prompt_logprobs=None
    )
    shorten = _shorten(record.slides) if record.slides else None
    stream = engine.submit(list(record.prompt_ids), params, shorten=shorten)
    stream.only(record.choice)
    if record.forced_length and not record.tokens:
        stream.cancel()
    for event in stream:
        if event.choice != record.choice:
            continue
        if isinstance(event, TokenChosen) and record.forced_length and event.index + 1 == record.tokens:
            stream.cancel()
        if isinstance(event, Finished):
            if event.error is not None:
                raise event.error
            assert event.notes is not None
            return event.notes, event.stop.kind
    raise AssertionError("an answer ends with its Finished")


def _shorten(slides: Sequence[Slide]) -> Shorten:
    """The prompts that the record's became, one after the other."""
    left = [list(slide.prompt or ()) for slide in slides]

    def shorter(_room: int) -> tuple[list[int], str]:
        return (left.pop(0), "as recorded") if left else ([0] * 2**22, "no more is recorded")

    return shorter


def _parting(engine: Engine, record: RequestRecord, here: Sequence[int], hashes: Sequence[str]) -> Parting | None:
    assert record.token_ids is not None
    by_token = same_answer(record.token_ids, here)
    compared = min(len(record.hashes or ()), len(hashes))
    by_hash = same_start(record.hashes or (), hashes)
    if by_hash < compared and (by_token is None or by_hash < by_token):
        token = here[by_hash]
        text = _text(engine.tokenizer, token)
        return Parting(by_hash, "logits", token, token, text, text, None)
    if by_token is None:
        return None
    theirs, ours = (one[by_token] if by_token < len(one) else None for one in (record.token_ids, here))
    return Parting(
        by_token, "token", theirs, ours, _text(engine.tokenizer, theirs), _text(engine.tokenizer, ours),
        _margin(engine, record, by_token, theirs, ours),
    )  # fmt: skip


def _margin(engine: Engine, record: RequestRecord, at: int, theirs: int | None, ours: int | None) -> float | None:
    """None where one answer had ended, or the model here has no such token."""
    if theirs is None or ours is None or not 0 <= theirs < engine.spec.vocab:
        return None
    assert record.prompt_ids is not None and record.token_ids is not None
    prompt = next((s.prompt for s in reversed(record.slides) if s.after <= at), record.prompt_ids)
    tokens = [*(prompt or ()), *record.token_ids[:at]]
    with engine.read(tokens, len(tokens) - 1) as rows:
        row = next(rows)
        return float(row[theirs]) - float(row[ours])


def _text(tokenizer: Tokenizer, token: int | None) -> str | None:
    if token is None or not 0 <= token < tokenizer.vocab_size:
        return None
    raw = tokenizer.token_bytes(token)
    return raw.decode("utf-8", "backslashreplace") if raw else tokenizer.piece(token)


def _differences(recorded: System, here: System) -> tuple[SystemDifference, ...]:
    pairs = [(name, getattr(recorded, name), getattr(here, name)) for name in _COMPARED]
    known = [(n, a or None, b or None) for n, a, b in pairs]
    return tuple(SystemDifference(*pair) for pair in known if pair[1] != pair[2])


def replay_json(done: Replay) -> dict[str, Any]:
    """As a JSON object; margins in nats, times in milliseconds."""
    fields = asdict(done)
    return {"record": "replay", "of": fields.pop("record"), **fields, "same": done.same}
