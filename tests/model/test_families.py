"""Every family against transformers: a tiny random model, its logits for a prefill and token by token.

Tolerance: both sides compute in float32 but sum in different orders; over these few layers that moves logits, whose
size is about 1 to 80, by less than 1e-6 of their largest. The last test shows that what a spec says moves them far
more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.model.spec import ExpertSpec, RopeSpec

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]

TOLERANCE = 4e-6  # of the largest logit; the worst family reaches 7e-7
TOKENS = 23
# Awkward on purpose: head_dim is not hidden / heads, three query heads per key-value head, no power of two anywhere.
SIZES = {
    "vocab_size": 97,
    "hidden_size": 36,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
WIDE = {**SIZES, "head_dim": 10}
WINDOW = 7  # shorter than the text
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 20, "num_experts": 5}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {**WIDE, "rms_norm_eps": 1e-3}),
    "llama-tied-biases": (
        "LlamaConfig",
        {**WIDE, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    "mistral": ("MistralConfig", {**WIDE, "sliding_window": WINDOW}),
    "mistral-full": ("MistralConfig", {**WIDE, "sliding_window": None}),
    "qwen2": ("Qwen2Config", SIZES),
    "qwen2-window": (
        "Qwen2Config",
        {**SIZES, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3Config", {**WIDE, "tie_word_embeddings": True}),
    "phi3": ("Phi3Config", {**SIZES, "sliding_window": WINDOW}),
    "phi3-partial": ("Phi3Config", {**SIZES, "hidden_size": 48, "partial_rotary_factor": 0.75}),
    "gemma2": ("Gemma2Config", {**WIDE, "sliding_window": WINDOW, "query_pre_attn_scalar": 13}),
    "gemma2-uncapped": (
        "Gemma2Config",
        {**WIDE, "sliding_window": WINDOW, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {**WIDE, "num_hidden_layers": 7, "sliding_window": WINDOW, "query_pre_attn_scalar": 13},
    ),
    "smollm3": ("SmolLM3Config", {**SIZES, "num_hidden_layers": 5}),
    "granite": (
        "GraniteConfig",
        {
            **SIZES,
            "embedding_multiplier": 3.0,
            "logits_scaling": 5.0,
            "residual_multiplier": 0.4,
            "attention_multiplier": 0.21,
        },
    ),
    "olmo2": ("Olmo2Config", SIZES),
    "mixtral": ("MixtralConfig", {**WIDE, "num_experts_per_tok": 2, "num_local_experts": 5}),
    "qwen2moe": ("Qwen2MoeConfig", {**SIZES, **EXPERTS, "shared_expert_intermediate_size": 28, "mlp_only_layers": [1]}),
    "qwen3moe": ("Qwen3MoeConfig", {**WIDE, **EXPERTS, "norm_topk_prob": True, "decoder_sparse_step": 2}),
    "qwen3moe-unnormalized": ("Qwen3MoeConfig", {**WIDE, **EXPERTS, "norm_topk_prob": False}),
    "gpt2": ("GPT2Config", {"vocab_size": 97, "n_embd": 36, "n_layer": 3, "n_head": 6, "n_positions": 64}),
    "bloom": ("BloomConfig", {"vocab_size": 97, "hidden_size": 36, "n_layer": 3, "n_head": 6}),
    "xglm": (
        "XGLMConfig",
        {
            "vocab_size": 97,
            "d_model": 36,
            "ffn_dim": 44,
            "num_layers": 3,
            "attention_heads": 6,
            "max_position_embeddings": 64,
        },
    ),
}


@pytest.mark.parametrize("case", FAMILIES)
def test_logits_equal_transformers(
    case: str, run: Callable[..., Any], tiny_model: Callable[..., Any], oracle: Callable[..., Any], tmp_path: Path
) -> None:
    ids = np.random.default_rng(3).integers(0, 97, TOKENS).tolist()
    expected = oracle(tiny_model(tmp_path, *FAMILIES[case]), ids)
    limit = TOLERANCE * np.abs(expected).max()
    prefill = run(tmp_path, ids)
    stepwise = run(tmp_path, ids, [TOKENS - 12, 5, *[1] * 7])
    np.testing.assert_allclose(prefill, expected, rtol=0, atol=limit)
    np.testing.assert_allclose(stepwise, expected, rtol=0, atol=limit)


# What a spec says, changed a little: (family, change, what it changes).
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"eps": 2e-3}),
    ("llama", {"activation": "gelu"}),
    ("llama", {"attention_scale": 10**-0.5 * 1.001}),
    ("llama", {"rope": RopeSpec(10_100.0, 10)}),
    ("mistral", {"windows": (WINDOW + 1,) * 3}),
    ("mistral", {"windows": (WINDOW, WINDOW - 1, WINDOW)}),
    ("gemma2", {"attention_softcap": 50.5}),
    ("gemma2", {"logit_softcap": 30.1}),
    ("gemma2", {"embedding_scale": 6.01}),
    ("gemma2", {"activation": "gelu"}),
    ("gemma3", {"local_rope": RopeSpec(11_000.0, 10)}),
    ("gemma3", {"windows": (WINDOW,) * 7}),
    ("granite", {"residual_scale": 0.401}),
    ("granite", {"logit_scale": 0.2001}),
    ("smollm3", {"rope_layers": (True,) * 5}),
    ("qwen3moe", {"experts": ExpertSpec(5, 2, 20, renormalize=False)}),
    ("qwen3moe", {"experts": ExpertSpec(5, 3, 20, renormalize=True)}),
    ("xglm", {"position_offset": 1}),
]


@pytest.mark.parametrize(("case", "change"), CHANGES)
def test_a_small_change_of_the_spec_is_seen(
    case: str, change: dict[str, Any], run: Callable[..., Any], tiny_model: Callable[..., Any], tmp_path: Path
) -> None:
    tiny_model(tmp_path, *FAMILIES[case])
    ids = np.random.default_rng(3).integers(0, 97, TOKENS).tolist()
    true, changed = run(tmp_path, ids), run(tmp_path, ids, change=change)
    assert np.abs(true - changed).max() > 4 * TOLERANCE * np.abs(true).max()
