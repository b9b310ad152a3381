"""Each edit alone, on a row small enough to check by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.stages.find import edits
from cutaway.sampling.stages.history import History
from cutaway.sampling.stages.logit_edits import bad_sequences

NO = -np.inf


class Words:
    """A tokenizer that knows " word" from "word": ids are 100 and up with a space, and two tokens for what is long."""

    def encode_part(self, text: str) -> list[int]:
        base = 3 if text.startswith(" ") else 0
        return [base] if len(text.strip()) < 4 else [base, base + 1]


def edited(
    row: Sequence[float], *, prompt: Sequence[int] = (), generated: Sequence[int] = (), **options: Any
) -> list[float]:
    params = SamplingParams(**options)
    history = History(prompt, ngram=params.no_repeat_ngram)
    for token in generated:
        history.add(token)
    values = np.array(row, np.float32)
    for _, edit in edits(params, end_ids=frozenset({1}), tokenizer=Words()):
        edit(values, history)
    return values.tolist()


ROW = [1.0, 2.0, -3.0, 0.0, 4.0]


def test_logit_bias() -> None:
    assert edited(ROW, logit_bias={0: 5, 2: -1.5, 4: -100}) == [6, 2, -4.5, 0, NO]


def test_allowed_and_banned() -> None:
    assert edited(ROW, allowed_tokens=[3, 1, 1]) == [NO, 2, NO, 0, NO]
    assert edited(ROW, banned_tokens=(4, 0)) == [NO, 2, -3, 0, NO]
    assert edited(ROW, allowed_tokens=[0, 1], banned_tokens=[1]) == [1, NO, NO, NO, NO]


def test_bad_words() -> None:
    assert edited(ROW, bad_words=[[2]]) == [1, 2, NO, 0, 4]
    assert edited(ROW, bad_words=[[0, 1, 2]], generated=[0]) == ROW
    assert edited(ROW, bad_words=[[0, 1, 2]], generated=[0, 1]) == [1, 2, NO, 0, 4]
    assert edited(ROW, bad_words=[[0, 1, 2]], prompt=[0], generated=[1]) == [1, 2, NO, 0, 4]
    assert edited(ROW, bad_words=[[0, 1, 2]], generated=[3, 1]) == ROW
    assert edited(ROW, bad_words=[[0, 1, 2]]) == ROW


def test_bad_words_that_are_texts_go_with_and_without_a_space() -> None:
    assert bad_sequences(["no", "never", " no", [7]], Words()) == [(0,), (3,), (0, 1), (3, 4), (7,)]
    assert edited(ROW, bad_words=["no"]) == [NO, 2, -3, NO, 4]
    assert edited(ROW, bad_words=["never"], generated=[3]) == [1, 2, -3, 0, NO]
    with pytest.raises(ParameterError, match="bad_words holds the text 'no'"):
        Sampler(SamplingParams(bad_words=["no"]), seed=0)


def test_min_tokens() -> None:
    assert edited(ROW, min_tokens=2, stop_token_ids=[4], generated=[0]) == [1, NO, -3, 0, NO]
    assert edited(ROW, min_tokens=2, stop_token_ids=[4], generated=[0, 0]) == ROW
    assert edited(ROW, min_tokens=2, stop_token_ids=[4], ignore_eos=True) == [1, 2, -3, 0, NO]


def test_repetition_counts_the_prompt() -> None:
    assert edited(ROW, repetition_penalty=2, prompt=[0, 2], generated=[4, 4]) == [0.5, 2, -6, 0, 2]


def test_presence_and_frequency_count_generated_tokens_only() -> None:
    prompt = [0, 0, 0, 0]
    assert edited(ROW, presence_penalty=2, frequency_penalty=1, prompt=prompt) == ROW
    assert edited(ROW, presence_penalty=2, prompt=prompt, generated=[1, 1, 4]) == [1, 0, -3, 0, 2]
    assert edited(ROW, frequency_penalty=0.5, prompt=prompt, generated=[1, 1, 4]) == [1, 1, -3, 0, 3.5]


def test_no_repeat_ngram() -> None:
    assert edited(ROW, no_repeat_ngram=2, prompt=[0, 1], generated=[2, 0]) == [1, NO, -3, 0, 4]
    assert edited(ROW, no_repeat_ngram=3, prompt=[0, 1, 3, 0], generated=[1]) == [1, 2, -3, NO, 4]
    assert edited(ROW, no_repeat_ngram=1, prompt=[0], generated=[1]) == [NO, NO, -3, 0, 4]
    assert edited(ROW, no_repeat_ngram=4, prompt=[0]) == ROW


def test_own_stages() -> None:
    seen: list[tuple[Any, ...]] = []

    def ban_last(logits: NDArray[np.float32], prompt: Sequence[int], generated: Sequence[int]) -> None:
        seen.append((tuple(prompt), tuple(generated)))
        logits[4] = -np.inf

    def negate(logits: NDArray[np.float32], prompt: Sequence[int], generated: Sequence[int]) -> NDArray[np.float32]:
        return -logits

    assert edited(ROW, stages=[ban_last], prompt=[3], generated=[1]) == [1, 2, -3, 0, NO]
    assert seen == [((3,), (1,))]
    assert edited(ROW, stages=[negate]) == [-1, -2, 3, 0, -4]


def test_own_stages_that_go_wrong() -> None:
    def short(logits: Any, prompt: Any, generated: Any) -> Any:
        return logits[:2]

    def broken(logits: Any, prompt: Any, generated: Any) -> Any:
        raise KeyError("x")

    with pytest.raises(EngineError, match="custom stage short returned shape"):
        edited(ROW, stages=[short])
    with pytest.raises(EngineError, match="custom stage broken failed: KeyError: 'x'"):
        edited(ROW, stages=[broken])


def test_history_grows_beyond_its_first_arrays() -> None:
    history = History(range(100))
    for token in (*range(50, 250), 7):
        history.add(token)
    assert sorted(history.seen.ids.tolist()) == list(range(250))
    assert dict(zip(history.made.ids.tolist(), history.made.counts.tolist(), strict=True)) == {
        **dict.fromkeys(range(50, 250), 1),
        7: 1,
    }
