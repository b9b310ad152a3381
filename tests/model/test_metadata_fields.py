"""Reading untrusted metadata: the right value, or an error that names the field."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import CutawayError, FormatError, UnsupportedError
from cutaway.model.metadata_fields import Fields


def test_values_and_their_alternatives() -> None:
    fields = Fields(
        "f", {"a.x": np.uint32(3), "a.y": 1, "a.z": None, "a.l": np.array([2, 2]), "a.t": "word", "a.n": [1.5]}, "a."
    )
    assert fields.integer("x") == 3
    assert fields.integer("z", "y") == 1  # null counts as absent
    assert fields.integer("missing", default=None) is None
    assert fields.integer("l") == 2
    assert fields.number("y") == 1.0
    assert fields.text("t") == "word"
    assert fields.numbers("n") == (1.5,)
    assert fields.numbers("missing") == ()
    assert fields.flag("missing", default=True)


def test_a_missing_value_is_named() -> None:
    with pytest.raises(FormatError, match=r"GGUF: llama\.block_count is missing"):
        Fields("GGUF", {}, "llama.").integer("block_count")


def test_values_that_differ_between_layers_are_not_supported() -> None:
    with pytest.raises(UnsupportedError, match=r"kv differs between layers"):
        Fields("f", {"kv": [1, 2]}).integer("kv")


@pytest.mark.parametrize("value", [0, -1, 2**31, 1.5, True, "3", float("nan"), [], {}, [[1]]])
def test_not_a_size(value: Any) -> None:
    with pytest.raises(FormatError, match="f: n must be a whole number"):
        Fields("f", {"n": value}).integer("n")


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "1", True, None])
def test_not_a_positive_number(value: Any) -> None:
    with pytest.raises(FormatError):
        Fields("f", {"n": value}).positive("n")


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(FormatError) as caught:
        Fields("f", {"n": "x" * 10_000}).number("n")
    assert len(str(caught.value)) < 150


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda s: st.lists(s) | st.dictionaries(st.text(), s),
)


@settings(deadline=None)
@given(JSON)
def test_anything_gives_a_value_or_an_error_of_ours(value: Any) -> None:
    fields = Fields("f", {"n": value})
    for read in (fields.integer, fields.number, fields.positive, fields.text, fields.numbers):
        try:
            read("n")
        except CutawayError:
            continue
    with contextlib.suppress(CutawayError):
        fields.flag("n", default=False)
