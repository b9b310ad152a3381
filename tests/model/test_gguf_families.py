"""The same families by the other road: a tiny transformers model converted to GGUF as llama.cpp's converter does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.gguf_oracle import write_gguf

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]

TOLERANCE = 4e-6  # of the largest logit, as in test_families
TOKENS, WINDOW = 23, 7
SIZES = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
}
WIDE = {**SIZES, "head_dim": 24}
BLOCK = {"vocab_size": 97, "n_layer": 3, "n_head": 4}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_experts": 5}

KEYS = {
    "block_count": 3,
    "context_length": 64,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 10_000.0,
}
WIDE_KEYS = {**KEYS, "attention.key_length": 24, "attention.value_length": 24, "rope.dimension_count": 24}
EXPERT_KEYS = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32}
BLOCK_KEYS = {
    "block_count": 3,
    "context_length": 64,
    "embedding_length": 64,
    "feed_forward_length": 256,
    "attention.head_count": 4,
    "attention.layer_norm_epsilon": 1e-5,
}

# case: (architecture, transformers config, its settings, GGUF metadata)
FAMILIES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", "LlamaConfig", {**WIDE, "attention_bias": True}, WIDE_KEYS),
    "llama-tied": ("llama", "LlamaConfig", {**WIDE, "tie_word_embeddings": True}, WIDE_KEYS),
    "mistral": (
        "llama",
        "MistralConfig",
        {**SIZES, "sliding_window": WINDOW},
        {**KEYS, "attention.sliding_window": WINDOW},
    ),
    "mixtral": (
        "llama",
        "MixtralConfig",
        {**SIZES, "num_local_experts": 5, "rms_norm_eps": 1e-6, "rope_parameters": {"rope_theta": 10_000.0}},
        {**KEYS, "expert_count": 5, "expert_used_count": 2},
    ),
    "qwen2": ("qwen2", "Qwen2Config", SIZES, KEYS),
    "qwen3": ("qwen3", "Qwen3Config", WIDE, WIDE_KEYS),
    "phi3": ("phi3", "Phi3Config", {**SIZES, "rms_norm_eps": 1e-6}, KEYS),
    "gemma2": (
        "gemma2",
        "Gemma2Config",
        {**WIDE, "sliding_window": WINDOW, "query_pre_attn_scalar": 24},
        {**WIDE_KEYS, "attention.sliding_window": WINDOW},
    ),
    "gemma3": (
        "gemma3",
        "Gemma3TextConfig",
        {**WIDE, "num_hidden_layers": 7, "sliding_window": WINDOW, "query_pre_attn_scalar": 24},
        {**WIDE_KEYS, "block_count": 7, "attention.sliding_window": WINDOW, "rope.freq_base": 1_000_000.0},
    ),
    "smollm3": (
        "smollm3",
        "SmolLM3Config",
        {**SIZES, "num_hidden_layers": 5},
        {**KEYS, "block_count": 5, "rope.freq_base": 2e6},
    ),
    "granite": (
        "granite",
        "GraniteConfig",
        {
            **SIZES,
            "embedding_multiplier": 3.0,
            "logits_scaling": 5.0,
            "residual_multiplier": 0.5,
            "attention_multiplier": 0.25,
        },
        {**KEYS, "embedding_scale": 3.0, "logit_scale": 5.0, "residual_scale": 0.5, "attention.scale": 0.25},
    ),
    "olmo2": ("olmo2", "Olmo2Config", {**SIZES, "rms_norm_eps": 1e-6}, KEYS),
    "qwen2moe": (
        "qwen2moe",
        "Qwen2MoeConfig",
        {**SIZES, **EXPERTS, "shared_expert_intermediate_size": 64},
        {**KEYS, **EXPERT_KEYS, "expert_shared_feed_forward_length": 64},
    ),
    "qwen3moe": (
        "qwen3moe",
        "Qwen3MoeConfig",
        {**WIDE, **EXPERTS, "norm_topk_prob": True},
        {**WIDE_KEYS, **EXPERT_KEYS},
    ),
    "gpt2": ("gpt2", "GPT2Config", {**BLOCK, "n_embd": 64, "n_positions": 64}, BLOCK_KEYS),
    "bloom": ("bloom", "BloomConfig", {**BLOCK, "hidden_size": 64}, BLOCK_KEYS),
}


@pytest.mark.parametrize("quant", ["F32", "Q8_0"])
@pytest.mark.parametrize("case", FAMILIES)
def test_logits_equal_transformers(
    case: str,
    quant: str,
    run: Callable[..., Any],
    tiny_model: Callable[..., Any],
    oracle: Callable[..., Any],
    tmp_path: Path,
) -> None:
    arch, config_name, settings, metadata = FAMILIES[case]
    model = tiny_model(tmp_path, config_name, settings)
    path = tmp_path / "model.gguf"
    write_gguf(model, arch, path, metadata, quant)
    ids = np.random.default_rng(3).integers(0, 97, TOKENS).tolist()
    expected = oracle(model, ids)
    limit = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(run(path, ids), expected, rtol=0, atol=limit)
    np.testing.assert_allclose(run(path, ids, [TOKENS - 9, *[1] * 9]), expected, rtol=0, atol=limit)


def test_rope_freqs_tensor(
    run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any], tmp_path: Path
) -> None:
    """Llama 3's scaling comes as divisors worked out by the converter."""
    rope = {"rope_theta": 500.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope["original_max_position_embeddings"] = 16
    model = tiny_model(tmp_path, "LlamaConfig", {**SIZES, "rope_parameters": rope})
    unscaled = 1.0 / 500.0 ** (np.arange(0, 16, 2) / 16)
    divisors = unscaled / model.model.rotary_emb.inv_freq.numpy()
    path = tmp_path / "model.gguf"
    write_gguf(model, "llama", path, {**KEYS, "rope.freq_base": 500.0}, extra={"rope_freqs.weight": divisors})
    ids = np.random.default_rng(3).integers(0, 97, TOKENS).tolist()
    expected = oracle(model, ids)
    np.testing.assert_allclose(run(path, ids), expected, rtol=0, atol=2 * TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("factor", [{"rope.scaling.factor": 4.0}, {}])
def test_yarn_that_extrapolates_nothing_is_plain_interpolation(
    factor: dict[str, float], run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any],
    tmp_path: Path,
) -> None:  # fmt: skip
    """`yarn_ext_factor` 0 takes YaRN's ramp and its temperature away. Without a factor it is context over original."""
    rope = {"rope_theta": 500.0, "rope_type": "linear", "factor": 4.0}
    model = tiny_model(tmp_path, "LlamaConfig", {**SIZES, "rope_parameters": rope})
    keys = {**KEYS, "rope.freq_base": 500.0, "rope.scaling.type": "yarn", "rope.scaling.yarn_ext_factor": 0.0}
    keys |= {"rope.scaling.original_context_length": 16, **factor}
    ids = np.random.default_rng(3).integers(0, 97, 41).tolist()
    expected = oracle(model, ids)
    write_gguf(model, "llama", tmp_path / "model.gguf", keys)
    limit = 2 * TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(run(tmp_path / "model.gguf", ids), expected, rtol=0, atol=limit)
    write_gguf(model, "llama", tmp_path / "ramp.gguf", {**keys, "rope.scaling.yarn_ext_factor": 1.0})
    assert np.abs(run(tmp_path / "ramp.gguf", ids) - expected).max() > 100 * limit


@pytest.mark.parametrize("original", [16, 48])
def test_long_rope_tensors(
    original: int, run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any], tmp_path: Path
) -> None:
    """Phi-3's two sets of divisors: the long one as soon as the configured context exceeds the original one."""
    short, long = [1.0 + 0.1 * i for i in range(8)], [1.0 + i for i in range(8)]
    rope = {"rope_theta": 500.0, "rope_type": "longrope", "short_factor": short, "long_factor": long}
    rope["original_max_position_embeddings"] = original
    settings = {**SIZES, "rms_norm_eps": 1e-6, "rope_parameters": rope, "original_max_position_embeddings": original}
    model = tiny_model(tmp_path, "Phi3Config", settings)
    factor = float(np.sqrt(1 + np.log(64 / original) / np.log(original)))
    metadata = {**KEYS, "rope.freq_base": 500.0, "rope.scaling.original_context_length": original}
    metadata |= {"rope.scaling.attn_factor": factor}
    path = tmp_path / "model.gguf"
    factors = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    write_gguf(model, "phi3", path, metadata, extra=factors)
    ids = np.random.default_rng(3).integers(0, 97, 37).tolist()
    expected = oracle(model, ids)
    np.testing.assert_allclose(run(path, ids), expected, rtol=0, atol=2 * TOLERANCE * np.abs(expected).max())
