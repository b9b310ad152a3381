from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cutaway.errors import ParameterError
from cutaway.sampling import SamplingParams

WRONG: list[tuple[str, Any]] = [
    ("temperature", -0.1),
    ("temperature", 100.5),
    ("temperature", float("nan")),
    ("temperature", float("inf")),
    ("temperature", "0.5"),
    ("temperature", True),
    ("temperature", None),
    ("temperature_end", -1),
    ("speculate", "draft"),
    ("speculate", False),
    ("top_k", -2),
    ("top_k", 1.5),
    ("top_k", False),
    ("top_k", 2**31),
    ("top_p", 2),
    ("top_p", -0.01),
    ("min_p", 1.01),
    ("typical_p", 0),
    ("typical_p", 1.5),
    ("repetition_penalty", 0),
    ("repetition_penalty", -1),
    ("presence_penalty", 2.1),
    ("frequency_penalty", -2.1),
    ("no_repeat_ngram", -1),
    ("dynamic_temperature_range", -1),
    ("dynamic_temperature_exponent", -1),
    ("logit_bias", {"5": 1}),
    ("logit_bias", {"abc": 1}),
    ("logit_bias", {-1: 5}),
    ("logit_bias", {5: 101}),
    ("logit_bias", {5: float("nan")}),
    ("logit_bias", [5]),
    ("allowed_tokens", []),
    ("allowed_tokens", [-1]),
    ("allowed_tokens", "abc"),
    ("banned_tokens", [1.0]),
    ("banned_tokens", 5),
    ("bad_words", "word"),
    ("bad_words", [""]),
    ("bad_words", [[]]),
    ("bad_words", [[1, "a"]]),
    ("bad_words", [5]),
    ("stages", ["top_k"]),
    ("seed", 2**64),
    ("seed", -(2**63) - 1),
    ("seed", 1.0),
    ("n", 0),
    ("n", True),
    ("max_tokens", -1),
    ("min_tokens", -1),
    ("stop", [""]),
    ("stop", ""),
    ("stop", [5]),
    ("stop", 5),
    ("stop_regex", "[a-"),
    ("stop_regex", "a*"),
    ("stop_regex", "$"),
    ("stop_regex", "(" * 5000 + "a" + ")" * 5000),
    ("stop_token_ids", [-5]),
    ("include_stop_str", 1),
    ("ignore_eos", "yes"),
    ("time_limit", -1),
    ("time_limit", float("inf")),
    ("logprobs", -1),
    ("logprobs", True),
    ("logprobs", 2**40),
    ("prompt_logprobs", 0.5),
    ("logprobs_mode", "cooked"),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}={value!r}"[:60] for name, value in WRONG])
def test_refuses(name: str, value: Any) -> None:
    options = {name: value} | ({"temperature_length": 3} if name == "temperature_end" else {})
    with pytest.raises(ParameterError, match=name) as error:
        SamplingParams(**options)
    assert error.value.code == "parameter_invalid"


def test_message_says_name_value_and_range() -> None:
    with pytest.raises(ParameterError, match=re.escape("top_p is 2; it must be 0 to 1")):
        SamplingParams(top_p=2)
    with pytest.raises(ParameterError, match=re.escape("n is True (bool); it must be an integer, 1 to")):
        SamplingParams(n=True)
    with pytest.raises(ParameterError, match="min_tokens is 5; it must be at most max_tokens, 4"):
        SamplingParams(min_tokens=5, max_tokens=4)
    with pytest.raises(ParameterError, match="temperature_length"):
        SamplingParams(temperature_end=0.5)


def test_takes_numpy_numbers_and_edges() -> None:
    SamplingParams(
        temperature=np.float32(0.5),
        top_k=np.int64(-1),
        top_p=0,
        min_p=1,
        seed=2**64 - 1,
        n=np.int32(2),
        max_tokens=0,
        logit_bias={np.int64(3): -100, 4: 100},
        allowed_tokens=np.arange(3),
        bad_words=["a", [1, 2], np.array([3])],
        stop="x",
        stop_regex=("a+", r"\bend\b"),
        logprobs=0,
        time_limit=0.5,
    )


def test_ids_beyond_the_vocabulary() -> None:
    wrong: list[dict[str, Any]] = [
        {"logit_bias": {999_999: 5}},
        {"allowed_tokens": np.array([1, 10])},
        {"banned_tokens": np.array([10])},
        {"stop_token_ids": [10]},
        {"bad_words": ["text", [1, 10]]},
    ]
    for options in wrong:
        name = next(iter(options))
        with pytest.raises(ParameterError, match=f"{name} names token 9*1?0?; ids of this model are 0 to 9"):
            SamplingParams(**options).check_vocab(10)
    with pytest.raises(ParameterError, match="logprobs is 11"):
        SamplingParams(logprobs=11).check_vocab(10)
    SamplingParams(logit_bias={9: 1}, logprobs=10, bad_words=["x", [9]]).check_vocab(10)


def test_replace() -> None:
    params = SamplingParams(top_k=5).replace(top_p=0.5)
    assert (params.top_k, params.top_p) == (5, 0.5)
    with pytest.raises(ParameterError, match="top_q is not a sampling parameter"):
        params.replace(top_q=1)
    with pytest.raises(ParameterError, match="top_p"):
        params.replace(top_p=5)


def test_one_stop_or_several() -> None:
    assert SamplingParams(stop="ab").stop_strings == ("ab",)
    assert SamplingParams(stop=["a", "b"]).stop_strings == ("a", "b")
    assert SamplingParams(stop_regex="a").stop_patterns == ("a",)
