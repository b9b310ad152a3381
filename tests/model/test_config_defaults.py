"""A key that a config.json leaves out has the default of the family's config class in transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cutaway.model.spec_config import CONFIG_FAMILIES, spec_from_config

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


def told(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """What transformers makes of these keys: all of them, with its defaults."""
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[name](**given).to_dict() | {"model_type": name}


def variants(name: str) -> Iterator[dict[str, Any]]:
    """Nothing; each key alone; all but one; windows enabled."""
    whole = {key: value for key, value in told(name, {}).items() if value is not None and key != "model_type"}
    yield {}
    for key, value in whole.items():
        if key != "layer_types":
            yield {key: value}
        yield {k: v for k, v in whole.items() if k != key}
    if "hidden_size" in whole:
        yield {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4}
    for window in ({}, {"sliding_window": 64}, {"sliding_window": 64, "max_window_layers": 2}):
        for layers in ({}, {"num_hidden_layers": 6}):
            yield {"use_sliding_window": True, **window, **layers}


@pytest.mark.parametrize("name", CONFIG_FAMILIES)
def test_absent_keys(name: str) -> None:
    for given in variants(name):
        expected = spec_from_config(told(name, given))
        assert spec_from_config(given | {"model_type": name}) == expected, given
