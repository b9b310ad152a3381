"""What a config.json may omit, by `model_type`: the defaults of that family's config class in transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _sizes(
    hidden: int, layers: int, heads: int, vocab: int, context: int, intermediate: int | None = None,
    kv_heads: int | None = None, **others: Any,
) -> Mapping[str, Any]:
    """Each under the last of the names that are read, so that the file's values take precedence."""
    named = {
        "n_embed": hidden, "num_layers": layers, "attention_heads": heads, "vocab_size": vocab, "seq_length": context,
        "ffn_dim": intermediate, "num_key_value_heads": kv_heads,
    }  # fmt: skip
    return {key: value for key, value in (named | others).items() if value is not None}


# The other names under which a file may give the value of a default, or null.
_OTHER_NAMES = {
    "n_embed": ("hidden_size", "n_embd", "d_model"), "num_layers": ("num_hidden_layers", "n_layer"),
    "attention_heads": ("num_attention_heads", "n_head"), "ffn_dim": ("intermediate_size", "n_inner"),
    "seq_length": ("max_position_embeddings", "n_positions", "n_ctx"), "num_experts": ("num_local_experts",),
}  # fmt: skip


def defaults_for(model_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of what `config` does not give under any name."""
    return {
        key: value
        for key, value in DEFAULTS[model_type].items()
        if not any(name in config for name in _OTHER_NAMES.get(key, ()))
    }


_QWEN_MOE = {"num_experts_per_tok": 4, "num_experts": 60, "moe_intermediate_size": 1408}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _sizes(4096, 32, 32, 32_000, 2048, 11_008),
    "mistral": _sizes(4096, 32, 32, 32_000, 131_072, 14_336, 8, sliding_window=4096),
    "qwen2": _sizes(4096, 32, 32, 151_936, 32_768, 22_016, 32, sliding_window=4096, max_window_layers=28),
    "qwen3": _sizes(4096, 32, 32, 151_936, 32_768, 22_016, 32, sliding_window=4096, max_window_layers=28),
    "phi3": _sizes(3072, 32, 32, 32_064, 4096, 8192),
    "gemma2": _sizes(2304, 26, 8, 256_000, 8192, 9216, 4),
    "gemma3_text": _sizes(2304, 26, 8, 262_208, 131_072, 9216, 4),
    "smollm3": _sizes(2048, 36, 16, 128_256, 32_768, 11_008, 4),
    "granite": _sizes(4096, 32, 32, 32_000, 2048, 11_008),
    "olmo2": _sizes(4096, 32, 32, 50_304, 2048, 11_008),
    "mixtral": _sizes(4096, 32, 32, 32_000, 131_072, 14_336, 8, num_experts=8),
    "qwen2_moe": _sizes(
        2048, 24, 16, 151_936, 32_768, 5632, 16, sliding_window=4096, max_window_layers=28,
        shared_expert_intermediate_size=5632, **_QWEN_MOE,
    ),
    "qwen3_moe": _sizes(
        2048, 24, 32, 151_936, 32_768, 6144, 4, sliding_window=4096, num_experts=128, num_experts_per_tok=8,
        moe_intermediate_size=768,
    ),
    "gpt2": _sizes(768, 12, 12, 50_257, 1024),
    "bloom": _sizes(64, 2, 8, 250_880, 2048),
    "xglm": _sizes(1024, 24, 16, 256_008, 2048, 4096),
}  # fmt: skip
