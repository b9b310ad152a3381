"""The engine against the naive one, under whatever happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.engine import Finished, Limits, Stream
from cutaway.errors import ContextExceededError
from cutaway.sampling import SamplingParams
from engine.driving import Worth, checked_step, collected, core, oracle
from engine.fake_model import FakeModel, layout

REQUEST = st.fixed_dictionaries(
    {
        "shared": st.integers(0, 14),  # tokens that many prompts begin with
        "own": st.lists(st.integers(1, 4), min_size=1, max_size=12),
        "max_tokens": st.integers(0, 14),
        "temperature": st.sampled_from([0.0, 1.0]),
        "n": st.sampled_from([1, 1, 1, 2, 3]),
        "arrives": st.integers(0, 12),
        "cancelled": st.none() | st.integers(0, 20),
        "prompt_logprobs": st.sampled_from([None, None, None, 1]),
        "allowed": st.sampled_from([None, (1, 2), (0, 1, 2), (3,)]),  # few tokens: what was drafted is often right
        "stop": st.sampled_from([(), (), "ab", "bab"]),
    }
)


@settings(max_examples=120, deadline=None)
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=8),
    groups=st.sampled_from([((None, 12),), ((None, 12), (5, 6)), ((7, 8), (1, 3)), ((None, 13), (3, 4), (None, 14))]),
    page_size=st.sampled_from([1, 3, 4]),
    limits=st.sampled_from([(1, 1, 1), (2, 3, 2), (4, 16, 5), (3, 64, 64)]),
    sharing=st.booleans(),
    speculate=st.booleans(),
)
def test_whatever_happens_every_answer_is_the_oracles(
    requests: list[dict[str, Any]], groups: tuple[tuple[int | None, int], ...], page_size: int,
    limits: tuple[int, int, int], sharing: bool, speculate: bool,
) -> None:
    """Random arrivals, cancels, shared prefixes, chunk sizes, windows, drafts right and wrong, and pools so small that
    requests are preempted. An answer that was cancelled is the beginning of the oracle's."""
    kv = layout(*groups, page_size=page_size)
    model = FakeModel(kv)
    engine = core(model, kv, context=30, limits=Limits(*limits), sharing=sharing, speculate=speculate, cost=Worth())
    naive = oracle(kv, engine.context)
    streams: list[tuple[Stream, list[int], SamplingParams, dict[str, Any]]] = []
    step = 0
    more = True
    while more or any(request["arrives"] >= step for request in requests):
        for request in requests:
            if request["arrives"] == step:
                prompt = [1 + i % 3 for i in range(request["shared"])] + request["own"]
                params = SamplingParams(
                    temperature=request["temperature"], max_tokens=request["max_tokens"], n=request["n"], seed=9,
                    prompt_logprobs=request["prompt_logprobs"], allowed_tokens=request["allowed"], stop=request["stop"],
                )
                try:
                    streams.append((engine.submit(prompt, params), prompt, params, request))
                except ContextExceededError:
                    assert len(prompt) > engine.context or (len(prompt) == engine.context and request["max_tokens"])
        for stream, _, _, request in streams:
            if request["cancelled"] is not None and request["arrives"] + request["cancelled"] == step:
                stream.cancel()
        more = checked_step(engine, model)
        step += 1
        assert step < 5_000
    assert all(pool.held == 0 for pool in engine.pages.pools)
    for stream, prompt, params, _ in streams:
        events = list(stream)
        for event in events:
            if isinstance(event, Finished) and event.choice == 0 and event.stop.kind != "cancelled":
                told = event.prompt_logprobs
                assert (None if told is None else len(told)) == (params.prompt_logprobs and len(prompt))
        for choice, answer in enumerate(collected(events)):
            if params.max_tokens == 0:
                assert (answer.tokens, answer.stop.kind) in {((), "length"), ((), "cancelled")}
                continue
            truth = naive.answer(prompt, params, seed=9, choice=choice)
            if answer.stop.kind == "cancelled":
                assert answer.tokens == truth.tokens[: len(answer.tokens)]
            else:
                assert answer == truth
