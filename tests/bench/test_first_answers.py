"""What the first question of a newcomer gives: `cutaway run "Name three colours."` with the default model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from cutaway.registry.catalogue import known_models


@pytest.fixture(scope="module")
def first() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "first_answers.py"
    spec = importlib.util.spec_from_file_location("benchmark_first_answers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_words_are_counted_once_and_whole(first: ModuleType) -> None:
    assert first.colours("Red, red and blue; a bluebird.") == ["red", "blue"]


@pytest.mark.models
def test_the_default_model_names_three_colours(first: ModuleType, smollm2_path: Path) -> None:
    """With the parameters of the catalogue, which a path alone does not give: four of six seeds or more."""
    (entry,) = (entry for entry in known_models() if entry.name == "smollm2-135m")
    texts, params = first.answers(str(smollm2_path), range(1, 7), max_tokens=128, **entry.sampling)
    assert (params.temperature, params.top_p) == (0.2, 0.9)
    assert sum(len(first.colours(text)) >= 3 for text in texts) >= 4, texts
