"""SamplingParams by position works for one version more, with a warning."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from cutaway.errors import ParameterError
from cutaway.sampling import SamplingParams
from cutaway.sampling.old_positions import ORDER

OLD: Any = SamplingParams  # the type has no positions any more


def test_values_have_the_places_they_had() -> None:
    said = r"SamplingParams\(temperature=, temperature_end=\): give parameters by name"
    with pytest.warns(DeprecationWarning, match=said):
        assert OLD(0.5, 0.2, temperature_length=9) == SamplingParams(
            temperature=0.5, temperature_end=0.2, temperature_length=9
        )
    defaults = SamplingParams()
    with pytest.warns(DeprecationWarning):
        assert OLD(*(getattr(defaults, name) for name in ORDER)) == defaults
    assert {field.name for field in fields(SamplingParams)} >= set(ORDER)


def test_the_warning_names_the_callers_line() -> None:
    with pytest.warns(DeprecationWarning) as caught:
        OLD(0.5)
    assert caught[0].filename == __file__


def test_values_are_checked_as_ever() -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(ParameterError, match="temperature"):
        OLD(-1)
    for wrong in (lambda: OLD(0.5, temperature=0.5), lambda: OLD(*[None] * 100)):
        with pytest.raises(TypeError, match="by name"):
            wrong()
    with pytest.raises(TypeError):
        OLD(unheard=1)


def test_by_name_there_is_no_warning_and_the_signature_says_so() -> None:
    assert SamplingParams(temperature=0.5).replace(top_k=3).top_k == 3
    kinds = {parameter.kind for name, parameter in inspect.signature(SamplingParams).parameters.items()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
