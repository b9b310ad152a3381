"""Answers that go on when the context is full."""

from __future__ import annotations

import pytest

from cutaway.engine import Finished, TokenChosen
from cutaway.engine.sliding_context import behind_head
from cutaway.errors import ParameterError
from cutaway.ops.protocol import KVLayout
from cutaway.sampling import SamplingParams
from engine.driving import CONTEXT, FULL, WINDOWS, answers, core, drain
from engine.fake_model import FakeModel

PROMPT = [1 + i % 6 for i in range(30)]
LONG = SamplingParams(temperature=0.0, max_tokens=33, ignore_eos=True)


def events(stream: object) -> tuple[list[int], Finished]:
    *tokens, last = list(stream)  # type: ignore[call-overload]
    assert isinstance(last, Finished)
    return [event.token for event in tokens if isinstance(event, TokenChosen)], last


@pytest.mark.parametrize("kv", [FULL, WINDOWS])
def test_an_answer_goes_on_as_a_fresh_request_with_the_shortened_prompt_would(kv: KVLayout) -> None:
    model = FakeModel(kv)
    engine = core(model, kv)
    stream = engine.submit(PROMPT, LONG, shorten=behind_head(PROMPT, CONTEXT))
    other = engine.submit([2, 3], LONG)
    drain(engine, model)
    tokens, last = events(stream)
    assert len(tokens) == 33 and last.stop.kind == "length"
    assert last.usage.prompt_tokens == len(PROMPT) and last.usage.completion_tokens == 33
    at = CONTEXT - len(PROMPT)  # 18 tokens, then the context was full; 12 of room for more
    kept = PROMPT[:12] + PROMPT[-6:]
    assert last.warnings == (
        f"truncation: after {at} tokens of the answer the context of {CONTEXT} was full; "
        "12 tokens behind the first 12 were left out in all",
        f"truncation: after 30 tokens of the answer the context of {CONTEXT} was full; "
        "18 tokens behind the first 12 were left out in all",
    )
    fresh_model = FakeModel(kv)
    fresh = core(fresh_model, kv)
    again = fresh.submit(kept + tokens[:at], LONG.replace(max_tokens=12))
    drain(fresh, fresh_model)
    assert events(again)[0] == tokens[at : at + 12]
    assert len(events(other)[0]) == 33
    engine.pages.check()


def test_an_answer_that_fills_the_context_with_the_head_ends() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    stream = engine.submit(PROMPT, LONG.replace(max_tokens=None), shorten=behind_head(PROMPT, CONTEXT))
    drain(engine, model)
    tokens, last = events(stream)
    assert len(tokens) == CONTEXT - 12 and last.stop.kind == "context" and last.stop.at == len(tokens) - 1
    assert last.warnings[-1].endswith("no more of the prompt can be dropped, so the answer ended")


def test_without_it_nothing_slides_and_a_failure_ends_only_its_request() -> None:
    def broken(most: int) -> None:
        raise ValueError(most)

    model = FakeModel(FULL)
    engine = core(model, FULL)
    plain, bad = engine.submit(PROMPT, LONG), engine.submit(PROMPT[1:], LONG, shorten=broken)
    drain(engine, model)
    assert events(plain)[1].stop.kind == "context"
    tokens, last = events(bad)
    assert last.stop.kind == "error" and len(tokens) == CONTEXT - 29 and "could not be shortened" in str(last.error)


def test_log_probabilities_of_a_prompt_that_goes_are_refused() -> None:
    engine = core(FakeModel(FULL), FULL)
    with pytest.raises(ParameterError, match="prompt_logprobs"):
        engine.submit(PROMPT, LONG.replace(prompt_logprobs=1), shorten=behind_head(PROMPT, CONTEXT))


Slid = tuple[tuple[int, ...], str, list[TokenChosen], Finished]


def slid(params: SamplingParams, prompt: list[int] = PROMPT) -> Slid:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    stream = engine.submit(prompt, params, seed=3, shorten=behind_head(prompt, CONTEXT))
    drain(engine, model)
    *tokens, last = list(stream)
    assert isinstance(last, Finished) and any("in all" in warning for warning in last.warnings)
    chosen = [event for event in tokens if isinstance(event, TokenChosen)]
    return tuple(e.token for e in chosen), "".join(e.text for e in chosen) + last.text, chosen, last


def test_a_stop_string_that_lies_across_the_place_where_the_context_slid_ends_the_answer() -> None:
    letters = LONG.replace(banned_tokens=[0])
    tokens, text, _, _ = slid(letters)
    across = text[16:20]  # of token 18 on the prompt is shorter
    assert len(text) == 33 and text.index(across) == 16
    stopped, shown, _, last = slid(letters.replace(stop=[across]))
    assert stopped == tokens[:20] and shown == text[:16]
    assert last.stop.kind == "stop_string" and last.stop.matched == across and last.stop.at == 19


def test_penalties_count_all_that_was_chosen_and_all_of_the_prompt_whatever_went() -> None:
    letters = [1, 2, 3] * 10
    params = LONG.replace(max_tokens=21, no_repeat_ngram=1)  # no token of prompt or answer comes twice
    model = FakeModel(FULL)
    engine = core(model, FULL)
    banned = params.replace(no_repeat_ngram=0, banned_tokens=[1, 2, 3], presence_penalty=2.0)
    plain, other = slid(banned, letters)[0], slid(banned.replace(presence_penalty=0.0), letters)[0]
    assert plain != other and len(set(plain)) > len(set(other))
    stream = engine.submit(letters, params, shorten=behind_head(letters, CONTEXT))
    drain(engine, model)
    (told,) = answers(stream)
    assert len(set(told.tokens)) == len(told.tokens) == 21 and not {1, 2, 3} & set(told.tokens)


def test_log_probabilities_and_indices_go_on() -> None:
    plain = slid(LONG)[0]
    tokens, _, chosen, _ = slid(LONG.replace(logprobs=1))
    assert tokens == plain and [event.index for event in chosen] == list(range(33))
    assert all(e.logprob is not None and e.logprob.token == e.token and e.logprob.rank == 1 for e in chosen)
    limit = slid(LONG.replace(min_tokens=25, ignore_eos=False))
    assert len(limit[0]) >= 25


def test_each_of_several_choices_slides_for_itself() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    params = LONG.replace(n=2, temperature=1.0)
    stream = engine.submit(PROMPT, params, seed=5, shorten=behind_head(PROMPT, CONTEXT))
    drain(engine, model)
    first, second = answers(stream)
    assert len(first.tokens) == len(second.tokens) == 33 and first.tokens != second.tokens
    engine.pages.check()
