"""The same request gives the same bits on the real backend, whatever the engine does with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cutaway.engine import EngineCore, Finished, Limits
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import F32
from cutaway.sampling import SamplingParams
from engine.driving import Worth
from engine.fake_model import LetterTokenizer
from oracle import Oracle
from tiny import SETS, TinyModel

VOCAB, CONTEXT = 133, 256


class NumberTokenizer(LetterTokenizer):
    end_ids: frozenset[int] = frozenset()

    def detokenizer(self, *, skip_special: bool = True, shown: Any = (), after: Any = ()) -> Any:
        class Numbers:
            def push(self, token: int) -> str:
                return f" {token}"

            def flush(self) -> str:
                return ""

        return Numbers()


def prompt(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, length).tolist()


class Watch:
    """A stage of its own that keeps the bits of every row that it was given, and changes none."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}

    def __call__(self, logits: F32, prompt: Sequence[int], generated: Sequence[int]) -> None:
        self.rows[len(generated)] = logits.tobytes()


def engine(
    threads: int, *, chunk: int = 512, pages: int | None = None, requests: int = 16, instruction_set: str = "",
    speculate: bool = False,
) -> EngineCore:
    model = TinyModel(NativeBackend(threads=threads, instruction_set=instruction_set))
    layout = model.layout
    if pages is not None:  # fewer than the backend has: so that requests are preempted
        layout = replace(layout, groups=tuple(replace(group, pages=pages) for group in layout.groups))
    limits = Limits(max_requests=min(requests, chunk), max_tokens=chunk, max_rows=64, step_us=10**9)
    tokenizer: Any = NumberTokenizer()
    return EngineCore(
        model.ops.record(model.forward), layout, tokenizer, vocab=VOCAB, context=CONTEXT, limits=limits,
        cost=Worth() if speculate else None, speculate=speculate,
    )


TARGET = prompt(0, 61)
OTHERS = [prompt(i, length) for i, length in enumerate((1, 16, 17, 37, 38, 100, 5, 64), 1)]
PARAMS = SamplingParams(temperature=1.0, seed=3, max_tokens=24)


def watched(
    core: EngineCore, *, others: Sequence[Sequence[int]] = (), late: bool = False, params: SamplingParams = PARAMS
) -> dict[int, bytes]:
    """The bits of every row of TARGET's answer. late: the others are there first."""
    watch = Watch()
    streams = [core.submit(other, PARAMS) for other in others] if late else []
    streams.append(core.submit(TARGET, params.replace(stages=[watch])))
    if not late:
        streams += [core.submit(other, PARAMS) for other in others]
    while core.step():
        core.pages.check()
    assert all(event.error is None for stream in streams for event in stream if isinstance(event, Finished))
    assert len(watch.rows) == params.max_tokens
    return watch.rows


def naive_rows(instruction_set: str = "") -> dict[int, bytes]:
    """From the naive engine: everything computed anew for every token, on one thread."""
    model = TinyModel(NativeBackend(threads=1, instruction_set=instruction_set))
    tokenizer: Any = NumberTokenizer()
    watch = Watch()
    naive = Oracle(model.ops.record(model.forward), model.layout, tokenizer, context=CONTEXT)
    naive.answer(TARGET, PARAMS.replace(stages=[watch]), seed=3)
    return watch.rows


@pytest.fixture(scope="module")
def truth() -> dict[int, bytes]:
    return naive_rows()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunk", [1, 7, 512])
def test_alone_in_chunks(truth: dict[int, bytes], threads: int, chunk: int) -> None:
    assert watched(engine(threads, chunk=chunk)) == truth


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunk", [9, 40, 512])
def test_in_a_batch_of_nine(truth: dict[int, bytes], threads: int, chunk: int) -> None:
    assert watched(engine(threads, chunk=chunk), others=OTHERS, late=chunk == 40) == truth


def test_after_a_prefix_hit(truth: dict[int, bytes]) -> None:
    core = engine(2)
    assert watched(core) == truth
    assert watched(core) == truth
    stream = core.submit(TARGET, PARAMS)
    while core.step():
        pass
    assert [event.usage.cached_tokens for event in stream if isinstance(event, Finished)] == [48]


def test_in_a_page_that_another_request_began(truth: dict[int, bytes]) -> None:
    core = engine(2)
    stream = core.submit([*TARGET[:55], 99], PARAMS.replace(max_tokens=6))  # ends at token 60, in TARGET's last page
    while core.step():
        pass
    assert list(stream)
    assert watched(core) == truth


@pytest.mark.parametrize("company", [0, 8])
def test_with_drafts_right_and_wrong(company: int) -> None:
    few = PARAMS.replace(allowed_tokens=[5, 77], max_tokens=40)
    expected = watched(engine(1), params=few)
    core = engine(2, speculate=True)
    assert watched(core, others=OTHERS[:company], params=few) == expected
    assert 0 < core.accepted < core.drafted


def test_after_preemptions(truth: dict[int, bytes]) -> None:
    assert preempted_answer(engine(2, pages=16, chunk=64)) == truth


@pytest.mark.parametrize("name", SETS)
def test_on_every_instruction_set(name: str) -> None:
    """Alone in chunks, among nine, preempted: as the naive engine."""
    truth = naive_rows(name)
    for threads, chunk in [(1, 1), (2, 7), (1, 512)]:
        assert watched(engine(threads, chunk=chunk, instruction_set=name)) == truth, (threads, chunk)
    for threads, chunk in [(1, 512), (2, 40)]:
        core = engine(threads, chunk=chunk, instruction_set=name)
        assert watched(core, others=OTHERS, late=threads == 2) == truth, (threads, chunk)
    assert preempted_answer(engine(2, pages=16, chunk=64, instruction_set=name)) == truth


def preempted_answer(core: EngineCore) -> dict[int, bytes]:
    """TARGET's rows from an engine whose pages are too few for all."""
    plan, preempted = core.scheduler.plan, []

    def counting() -> Any:
        made = plan()
        preempted.extend(made.preempted)
        return made

    core.scheduler.plan = counting  # type: ignore[method-assign]
    rows = watched(core, others=OTHERS, late=True)
    assert any(work.tokens[: len(TARGET)] == TARGET for work in preempted), "this test wants TARGET to be preempted"
    return rows
