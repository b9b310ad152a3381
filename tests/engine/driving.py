"""Engines over a fake model, driven step by step: what the tests of the loop share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutaway.engine import CostModel, EngineCore, Event, Finished, Limits, Stream, TokenChosen
from cutaway.ops.protocol import KVLayout, Step
from cutaway.ops.rows import Rows
from cutaway.sampling import SamplingParams
from engine.fake_model import VOCAB, FakeModel, LetterTokenizer, layout
from oracle import Answer, Oracle

CONTEXT = 48
GREEDY = SamplingParams(temperature=0.0, max_tokens=8, ignore_eos=True)
TOKENIZER: Any = LetterTokenizer()
LIMITS = Limits(max_requests=4, max_tokens=16, max_rows=6)


class Worth(CostModel):
    """A step costs a second whatever is in it: every draft pays. Not impressed by measurements."""

    def __init__(self) -> None:
        super().__init__(1_000_000.0, 1.0, 0.0)

    def observe(self, tokens: int, pair_count: int, microseconds: float) -> None:
        pass


def core(model: Callable[[Step], Rows], kv: KVLayout, **options: Any) -> EngineCore:
    return EngineCore(model, kv, TOKENIZER, vocab=VOCAB, **({"context": CONTEXT, "limits": LIMITS} | options))


def oracle(kv: KVLayout, context: int = CONTEXT) -> Oracle:
    whole = layout(*((group.window, CONTEXT) for group in kv.groups), page_size=kv.page_size)
    return Oracle(FakeModel(whole), whole, TOKENIZER, context=context)


def checked_step(engine: EngineCore, model: FakeModel) -> bool:
    """One step, after which the ledger is checked and every page without a reader is filled with nonsense."""
    more = engine.step()
    engine.pages.check()
    for group, pool in enumerate(engine.pages.pools):
        readable = {p for p in range(pool.total) if pool.references(p) or pool.is_published(p)}
        model.poison(group, set(range(pool.total)) - readable)
    return more


def drain(engine: EngineCore, model: FakeModel) -> None:
    for _ in range(5_000):
        if not checked_step(engine, model):
            return
    raise AssertionError("the engine does not come to an end")


def answers(stream: Stream) -> list[Answer]:
    events = list(stream)
    assert stream.events.empty()
    return collected(events)


def collected(events: list[Event]) -> list[Answer]:
    """The events of a finished stream, per choice. Checks that they are in order and that the last is the only
    `Finished`."""
    told: dict[int, list[Event]] = {}
    for event in events:
        told.setdefault(event.choice, []).append(event)
    result = []
    for _, (*tokens, last) in sorted(told.items()):
        assert isinstance(last, Finished)
        chosen = [event for event in tokens if isinstance(event, TokenChosen)]
        assert len(chosen) == len(tokens) and [event.index for event in chosen] == list(range(len(chosen)))
        assert last.usage.completion_tokens == len(chosen)
        text = "".join(event.text for event in chosen) + last.text
        result.append(Answer(tuple(event.token for event in chosen), text, last.stop))
    return result


def last(stream: Stream) -> Finished:
    return [event for event in stream if isinstance(event, Finished)][-1]


FULL = layout((None, 40))
WINDOWS = layout((None, 40), (6, 12), (1, 9), (None, 40), page_size=3)
