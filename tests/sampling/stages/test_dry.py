"""DRY against a plain search for repetitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.stages.dry import Dry
from cutaway.sampling.stages.history import History


def letter(token: int) -> bytes:
    return bytes([97 + token]) if token < 26 else b"\n"


def penalties(tokens: list[int], params: SamplingParams, vocab: int = 30) -> list[float]:
    """By definition: for every earlier place, count back how far it is the same as the end."""
    last = params.dry_penalty_last_n
    window = tokens if last < 0 else tokens[len(tokens) - min(last, len(tokens)) :]
    unbroken = 0
    for token in reversed(tokens):
        if any(text.encode() in letter(token) for text in params.dry_sequence_breakers):
            break
        unbroken += 1
    found = [0.0] * vocab
    for place in range(len(window) - 1):
        same = 0
        while same <= place and window[place - same] == window[len(window) - 1 - same]:
            same += 1
        same = min(same, unbroken)
        if same >= params.dry_allowed_length:
            cost = params.dry_multiplier * params.dry_base ** (same - params.dry_allowed_length)
            found[window[place + 1]] = max(found[window[place + 1]], cost)
    return found


def measured(prompt: list[int], output: list[int], params: SamplingParams) -> list[list[float]]:
    stage, history = Dry(params, letter), History(prompt)
    steps = []
    for token in [*output, None]:
        row = np.zeros(30, np.float32)
        stage(row, history)
        steps.append((-row).tolist())
        if token is not None:
            history.add(token)
    return steps


tokens = st.lists(st.integers(0, 2) | st.just(26), max_size=30)


@settings(max_examples=200, deadline=None)
@given(tokens, tokens, st.integers(1, 4), st.sampled_from([-1, 0, 1, 5, 20]), st.sampled_from([(), ("\n",), ("a",)]))
def test_equals_the_definition(
    prompt: list[int], output: list[int], allowed: int, last: int, breakers: tuple[str, ...]
) -> None:
    params = SamplingParams(
        dry_multiplier=0.8, dry_allowed_length=allowed, dry_penalty_last_n=last, dry_sequence_breakers=breakers
    )
    for count, step in enumerate(measured(prompt, output, params)):
        expected = penalties(prompt + output[:count], params)
        np.testing.assert_allclose(step, expected, rtol=1e-5)


def test_breakers_across_tokens() -> None:
    params = SamplingParams(dry_multiplier=1.0, dry_sequence_breakers=["bc"])
    words = [0, 1, 2, 3, 4, 0, 1, 2, 3]  # a b c d e a b c d: "bc" ends with each c
    assert measured(words, [], params)[-1] == [0.0] * 30
    assert measured([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4], [], params)[-1][5] == 1.0


def test_long_repetitions_are_bounded_and_quick() -> None:
    params = SamplingParams(dry_multiplier=5, dry_base=10)
    step = measured([0, 1] * 3000, [], params)[-1]
    assert step[0] == pytest.approx(1e9)


def test_in_the_sampler() -> None:
    class Names:
        token_bytes = staticmethod(letter)

    params = SamplingParams(dry_multiplier=100, temperature=0)
    sampler = Sampler(params, seed=0, prompt=[0, 1, 2, 5, 0, 1, 2], tokenizer=Names())  # type: ignore[arg-type]
    row = np.zeros(30, np.float32)
    row[5], row[7] = 2, 1
    assert sampler.choose(row).token == 7
    with pytest.raises(ParameterError, match="tokenizer"):
        Sampler(params, seed=0)
    off = SamplingParams(dry_multiplier=1, dry_penalty_last_n=0)
    Sampler(off, seed=0)
    with pytest.raises(ParameterError, match="dry_base"):
        SamplingParams(dry_base=0.5)
