"""The option --rope-scaling: what it takes, and that whatever else is typed is a ParameterError."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.model.rope_scaling import GRAMMAR, RopeScaling, parse_rope_scaling

GOOD = {
    "none": RopeScaling("none"),
    "none,base=2e6": RopeScaling("none", base=2e6),
    "linear:2": RopeScaling("linear", 2.0),
    " ntk : 1.5 ": RopeScaling("ntk", 1.5),
    "dynamic:2,original=8192": RopeScaling("dynamic", 2.0, 8192),
    "yarn:4,original=32768,attention_factor=1.2,beta_fast=16,beta_slow=2,truncate=false,base=1e5": RopeScaling(
        "yarn", 4.0, 32768, 1e5, 1.2, 16.0, 2.0, False
    ),
    "llama3:8,low_freq_factor=2,high_freq_factor=3": RopeScaling(
        "llama3", 8.0, low_freq_factor=2.0, high_freq_factor=3.0
    ),
}
BAD = {
    "": "unknown kind ''",
    "yarm:4": "unknown kind 'yarm'",
    "longrope:4": "its factors come with the model file",
    "yarn": "yarn needs a factor, as in yarn:4",
    "yarn:": "factor must be a number from 1 to 10000, got ''",
    "yarn:0.5": "factor must be a number from 1 to 10000, got '0.5'",
    "yarn:nan": "factor must be a number",
    "yarn:inf": "factor must be a number",
    "none:2": "none takes no factor",
    "linear:2,beta_fast=3": "'beta_fast=3' is not an option of linear",
    "yarn:4,original": "'original' is not an option of yarn",
    "yarn:4,original=8k": "original must be a whole number",
    "yarn:4,original=0": "original must be a whole number",
    "yarn:4,truncate=maybe": "truncate must be true or false",
    "yarn:4,": "'' is not an option of yarn",
    "yarn:4,base=0": "base must be a number from",
}


@pytest.mark.parametrize("text", GOOD)
def test_what_it_takes(text: str) -> None:
    assert parse_rope_scaling(text) == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_what_it_refuses(text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_rope_scaling(text)
    assert BAD[text] in str(caught.value)
    assert caught.value.code == "parameter_invalid"


def test_the_examples_of_the_grammar_parse() -> None:
    for example in GRAMMAR.rpartition("Examples:")[2].split():
        parse_rope_scaling(example)


@settings(deadline=None)
@given(st.one_of(st.text(), st.text("yarnlinearntk:,=.0123456789base_factor e")))
def test_any_text_gives_a_scaling_or_a_parameter_error(text: str) -> None:
    try:
        scaling = parse_rope_scaling(text)
    except ParameterError:
        return
    assert scaling.kind == "none" or 1 <= (scaling.factor or 0) <= 10_000


def test_which_depend_on_the_context() -> None:
    kinds = ("none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope", "factors")
    assert [kind for kind in kinds if RopeScaling(kind).depends_on_context()] == ["dynamic", "longrope"]
