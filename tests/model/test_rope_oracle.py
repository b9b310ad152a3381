"""Every rope scaling against transformers, from config.json and by option, at lengths beyond the trained context."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.model import parse_rope_scaling
from cutaway.model.positions import inverse_frequencies, rope_table
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import RopeSpec

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]

TOLERANCE = 4e-6  # of the largest logit, as in test_families
TRAINED, TOKENS = 16, 41
SIZES = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 44,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": TRAINED,
    "pad_token_id": None,
}
FACTORS = {"short_factor": [1.0 + 0.1 * i for i in range(6)], "long_factor": [1.0 + i for i in range(6)]}
THETA = {"rope_theta": 500.0}

SCALINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "linear": ("LlamaConfig", {"rope_type": "linear", "factor": 3.0}),
    "dynamic": ("LlamaConfig", {"rope_type": "dynamic", "factor": 2.0}),
    "llama3": (
        "LlamaConfig",
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": TRAINED,
        },
    ),
    "yarn": ("LlamaConfig", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": TRAINED}),
    "yarn-betas": (
        "LlamaConfig",
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": TRAINED,
            "beta_fast": 3.0,
            "beta_slow": 0.7,
            "truncate": False,
            "attention_factor": 1.3,
        },
    ),
    "yarn-mscale": (
        "LlamaConfig",
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": TRAINED,
            "mscale": 1.2,
            "mscale_all_dim": 0.7,
        },
    ),
    "longrope": ("Phi3Config", {"rope_type": "longrope", "original_max_position_embeddings": TRAINED, **FACTORS}),
    "longrope-short": ("Phi3Config", {"rope_type": "longrope", "original_max_position_embeddings": TOKENS, **FACTORS}),
}


def settings_of(case: str) -> tuple[str, dict[str, Any]]:
    config_name, parameters = SCALINGS[case]
    settings: dict[str, Any] = {**SIZES, "rope_parameters": {**THETA, **parameters}}
    if config_name == "Phi3Config":  # its factor follows from the two contexts
        original = parameters["original_max_position_embeddings"]
        settings |= {"max_position_embeddings": 64, "original_max_position_embeddings": original}
    return config_name, settings


@pytest.mark.parametrize("case", SCALINGS)
def test_scaling_of_a_model(
    case: str, run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any], tmp_path: Path
) -> None:
    ids = np.random.default_rng(4).integers(0, 97, TOKENS).tolist()
    expected = oracle(tiny_model(tmp_path, *settings_of(case)), ids)
    limit = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(run(tmp_path, ids), expected, rtol=0, atol=limit)
    unscaled = run(tmp_path, ids, rope_scaling=RopeScaling("none"))
    assert np.abs(unscaled - expected).max() > 100 * limit  # the scaling matters here


OPTIONS = {"linear": "linear:3", "dynamic": "dynamic:2", "llama3": "llama3:8", "yarn": "yarn:4"}


@pytest.mark.parametrize("case", OPTIONS)
def test_scaling_by_option(
    case: str, run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any], tmp_path: Path
) -> None:
    ids = np.random.default_rng(4).integers(0, 97, TOKENS).tolist()
    expected = oracle(tiny_model(tmp_path / "scaled", *settings_of(case)), ids)
    plain = {**SIZES, "rope_parameters": {"rope_type": "default", **THETA}}
    tiny_model(tmp_path / "plain", "LlamaConfig", plain)  # the same seed, so the same weights
    logits = run(tmp_path / "plain", ids, rope_scaling=parse_rope_scaling(OPTIONS[case]))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_ntk_is_another_base(
    run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any], tmp_path: Path
) -> None:
    ids = np.random.default_rng(4).integers(0, 97, TOKENS).tolist()
    base = 500.0 * 3.0 ** (12 / 10)  # head_dim 12
    other = {**SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": base}}
    expected = oracle(tiny_model(tmp_path / "other", "LlamaConfig", other), ids)
    tiny_model(tmp_path / "plain", "LlamaConfig", {**SIZES, "rope_parameters": {"rope_type": "default", **THETA}})
    logits = run(tmp_path / "plain", ids, rope_scaling=parse_rope_scaling("ntk:3"))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_gemma3_scales_only_its_global_layers(
    run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any], tmp_path: Path
) -> None:
    rope = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    }
    sizes = {**SIZES, "num_hidden_layers": 7, "head_dim": 12, "sliding_window": 9, "rope_parameters": rope}
    ids = np.random.default_rng(4).integers(0, 97, TOKENS).tolist()
    expected = oracle(tiny_model(tmp_path, "Gemma3TextConfig", sizes), ids)
    np.testing.assert_allclose(run(tmp_path, ids), expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("base", [1e4, 1e5, 5e5, 1e6])
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
def test_tables_at_real_sizes(base: float, dim: int) -> None:
    """Inverse frequencies equal torch's to the last bit but one, so that tables agree far out as well."""
    import torch

    exponents = torch.arange(0, dim, 2, dtype=torch.int64).float() / dim
    expected = (1.0 / (base**exponents)).numpy()
    inverse, _ = inverse_frequencies(RopeSpec(base, dim), 8192, 8192)
    np.testing.assert_array_max_ulp(inverse, expected, 1)
    positions = torch.arange(8192).float()[:, None]
    same = inverse == expected  # where torch rounds the power to the other side, angles differ too
    cos = (positions * torch.from_numpy(expected)).cos().numpy()
    np.testing.assert_allclose(
        rope_table(RopeSpec(base, dim), 8192, 8192).cos[:, same], cos[:, same], rtol=0, atol=1e-6
    )
    assert same.mean() > 0.95
