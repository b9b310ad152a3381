"""Warnings about a model, from its files and the requested context."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from cutaway.model import RopeScaling, cautions, spec_from_config

CONFIG: dict[str, Any] = {
    "model_type": "phi3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 64, "max_position_embeddings": 128, "original_max_position_embeddings": 32,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
}  # fmt: skip


def told(context: int, *, ends: frozenset[int] = frozenset({1}), stretched: RopeScaling | None = None) -> str:
    tokenizer: Any = SimpleNamespace(warnings=["of the tokenizer"], end_ids=ends)
    return " | ".join(cautions(spec_from_config(CONFIG), tokenizer, context, stretched))


def test_long_rope_beyond_its_original_context() -> None:
    assert "LongRoPE" in told(33) and "at most 32" in told(33)
    assert told(32) == "of the tokenizer"
    assert "LongRoPE" not in told(33, stretched=RopeScaling("linear", 2.0))


def test_beyond_the_models_context_and_without_an_end() -> None:
    assert "more than the 128" in told(129)
    assert "more than the 128" not in told(129, stretched=RopeScaling("linear", 2.0))
    assert "no end token" in told(32, ends=frozenset())
    spec = replace(spec_from_config(CONFIG), rope=None)
    tokenizer: Any = SimpleNamespace(warnings=[], end_ids={1})
    assert cautions(spec, tokenizer, 64, None) == []
