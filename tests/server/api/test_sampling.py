"""Valid requests, and the errors of invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, HELLO, Running

pytestmark = pytest.mark.models


def test_null_equals_absent(smol: Running) -> None:
    """C45."""
    names = ("temperature", "top_p", "stop", "max_tokens", "seed", "logit_bias", "tools", "tool_choice", "n",
             "response_format", "stream_options", "stream", "logprobs", "top_logprobs", "user",
             "unheard_of")  # fmt: skip
    reply = smol.ok(CHAT, messages=HELLO, max_completion_tokens=1, **dict.fromkeys(names))
    assert reply["usage"]["completion_tokens"] == 1 and "warnings" not in reply


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"temperature": "hot"}, "temperature", "number, but is 'hot'"),
        ({"temperature": -1}, "temperature", "0 to 100"),
        ({"top_p": 2}, "top_p", "0 to 1"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"stream": "yes"}, "stream", "boolean"),
        ({"max_tokens": 1.5}, "max_tokens", "integer"),
        ({"stop": 3}, "stop", "string or list, but is 3"),
        ({"stop": ""}, "stop", "empty"),
        ({"seed": True}, "seed", "integer"),
        ({"repeat_penalty": 0}, "repeat_penalty", "repeat_penalty is 0"),
        ({"typical_p": 0}, "typical_p", "above 0"),
        ({"mirostat": 1}, "mirostat", "0 or 2"),
        ({"speculate": "draft"}, "speculate", "'ngram', 'off' or False"),
        ({"presence_penalty": 3}, "presence_penalty", "-2 to 2"),
        ({"skip_special_tokens": False}, "skip_special_tokens", "not supported here; it may be True"),
        ({"use_beam_search": True}, "use_beam_search", "not supported"),
        ({"samplers": ["top_k"]}, "samplers", "not supported"),
        ({"truncation": "some"}, "truncation", "'error', 'auto'"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only allowed when stream is true"),
        ({"logit_bias": {"999999": 5}}, "logit_bias", "0 to 49151"),
        ({"logit_bias": {"-1": 5}}, "logit_bias", "decimal digits"),
        ({"logit_bias": {"abc": 1}}, "logit_bias", "decimal digits"),
        ({"logit_bias": {"5": 101}}, "logit_bias", "-100 to 100"),
        ({"top_logprobs": 5}, "top_logprobs", "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
        ({"logprobs": True, "top_logprobs": 2_000_000_000}, "top_logprobs", "less than or equal to 20"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs", "greater than or equal to 0"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_completion_tokens", "but different values"),
        ({"preset": "poetry"}, "preset", "one of chat, code"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "must not have messages"),
        ({"chat_template_kwargs": {"tool_format": "x"}}, "chat_template_kwargs", "must not have tool_format"),
        ({"response_format": {"type": "yaml"}}, "response_format", "'text', 'json_object' or 'json_schema'"),
        ({"regex": "a", "choice": ["b"]}, "choice", "regex and choice both"),
        ({"structured_outputs": {"structural_tag": {}}}, "structured_outputs", "structural_tag is not supported"),
    ],
)
def test_what_is_wrong_is_a_400_that_names_the_field(
    smol: Running, fields: dict[str, Any], param: str, words: str
) -> None:
    """C15, C25, C28, C45; the same for a stream: everything is checked before the headers."""
    for stream in (False, True):
        asked = {"messages": HELLO, "stream": stream} | fields
        if "stream_options" in fields:
            asked["stream"] = False
        error = smol.refused(CHAT, **asked)
        assert words in error["message"], error
        assert error["param"] == param and error["type"] == "invalid_request_error"


def test_an_unknown_field_is_a_warning_and_with_strict_an_error(smol: Running) -> None:
    reply = smol.ok(CHAT, messages=HELLO, max_tokens=1, tempratur=1, whatever=2)
    assert reply["warnings"] == [
        "unknown field 'tempratur' was ignored; did you mean 'temperature'?", "unknown field 'whatever' was ignored",
    ]  # fmt: skip
    chunks = smol.chunks(CHAT, messages=HELLO, max_tokens=1, tempratur=1)
    assert [w for chunk in chunks for w in chunk.get("warnings", ())] == reply["warnings"][:1]
    assert smol.refused(CHAT, messages=HELLO, strict=True, tempratur=1)["param"] == "tempratur"
    assert "warnings" not in smol.ok(CHAT, messages=HELLO, max_tokens=1, strict=True, user="x", store=True, metadata={})


def test_all_names_of_the_parameters_are_taken(smol: Running) -> None:
    fields = {
        "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "presence_penalty": 0.1, "frequency_penalty": 0.1,
        "repeat_penalty": 1.1, "typical_p": 0.95, "dynatemp_range": 0.1, "dynatemp_exponent": 1.0, "seed": 1,
        "top_n_sigma": 2.0, "xtc_probability": 0.1, "xtc_threshold": 0.2, "dry_multiplier": 0.5, "dry_base": 1.75,
        "dry_allowed_length": 2, "dry_penalty_last_n": -1, "dry_sequence_breakers": ["\n"], "min_tokens": 1,
        "no_repeat_ngram_size": 5, "bad_words": ["zzz"], "stop": ["###"], "stop_regex": "\n\n\n\n",
        "stop_token_ids": [7],
        "include_stop_str_in_output": True, "ignore_eos": True, "n_predict": 3, "t_max_predict_ms": 60_000,
        "logit_bias": {"5": -1}, "cache_salt": "x", "return_token_ids": True, "timings": True,
    }  # fmt: skip
    reply = smol.ok(CHAT, messages=HELLO, strict=True, **fields)
    choice = reply["choices"][0]
    assert len(choice["token_ids"]) == 3 and reply["seed"] == 1 and reply["timings"]["total"] > 0
    assert reply["prompt_token_ids"][0] == 1
    again = smol.ok(CHAT, messages=HELLO, strict=True, **fields)
    assert again["choices"][0]["message"] == choice["message"]


def test_near_zero_temperatures_are_greedy(smol: Running) -> None:
    """C23."""

    def text(**fields: Any) -> str:
        return smol.ok(COMPLETIONS, prompt="San Francisco is a", max_tokens=7, **fields)["choices"][0]["text"]

    greedy = text(temperature=0)
    for fields in ({"temperature": t} for t in (1e-6, 1e-5, 1e-4, 1e-3)):
        assert text(**fields) == greedy
    assert text(top_p=1e-4, temperature=1) == text(top_p=0, temperature=1) == text(top_k=1, temperature=1) == greedy
    assert text(temperature=1, top_k=0, seed=3) == text(temperature=1, top_k=-1, seed=3)


def test_logit_bias_has_the_word(smol: Running) -> None:
    """C25."""
    reply = smol.ok(COMPLETIONS, prompt="x", max_tokens=2, temperature=0, logit_bias={"28120": 100})
    assert reply["choices"][0]["text"] == "hellohello"
    fields = {"prompt": "1 2 3", "max_tokens": 1, "temperature": 0, "return_token_ids": True}
    first = smol.ok(COMPLETIONS, **fields)["choices"][0]["token_ids"][0]
    banned = smol.ok(COMPLETIONS, logit_bias={str(first): -100}, **fields)["choices"][0]["token_ids"][0]
    assert banned != first


def test_presence_penalty_does_not_count_the_prompt(smol: Running) -> None:
    """C29."""
    fields: dict[str, Any] = {
        "prompt": "cat cat cat cat", "temperature": 1, "top_p": 1, "top_k": 0, "seed": 1, "logprobs": 5,
        "max_tokens": 1,
        "logprobs_mode": "processed",
    }  # fmt: skip
    plain = smol.ok(COMPLETIONS, **fields)["choices"][0]
    assert smol.ok(COMPLETIONS, presence_penalty=2, frequency_penalty=2, **fields)["choices"][0] == plain
    assert smol.ok(COMPLETIONS, repetition_penalty=1.9, **fields)["choices"][0]["logprobs"] != plain["logprobs"]
