"""Specs from config.json, as hub repositories have them: in old and new spelling, and with keys left out."""

from __future__ import annotations

from typing import Any

import pytest

from cutaway.errors import FormatError, UnsupportedError
from cutaway.model import spec_from_config
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import ExpertSpec, RopeSpec
from cutaway.model.spec_config import CONFIG_FAMILIES

LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}


def test_llama() -> None:
    spec = spec_from_config(LLAMA)
    assert (spec.family, spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.head_dim) == (
        "llama",
        16,
        2048,
        32,
        8,
        64,
    )
    assert (spec.norm, spec.eps, spec.activation, spec.tied, spec.attention_scale) == ("rms", 1e-5, "silu", True, 0.125)
    assert spec.rope == RopeSpec(500_000.0, 64, RopeScaling("llama3", 32.0, 8192))
    assert set(spec.windows) == {None}


def test_the_new_spelling_of_rope_parameters_is_the_same() -> None:
    new: dict[str, Any] = {k: v for k, v in LLAMA.items() if k not in ("rope_theta", "rope_scaling")}
    new["rope_parameters"] = {"rope_theta": 500000.0, **LLAMA["rope_scaling"]}  # type: ignore[dict-item]
    assert spec_from_config(new) == spec_from_config(LLAMA)


def test_gemma3_with_a_vision_part_says_very_little() -> None:
    """As published: heads, head_dim, context and vocabulary are left to the defaults."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    spec = spec_from_config({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    assert (spec.family, spec.heads, spec.kv_heads, spec.head_dim, spec.vocab) == ("gemma3", 8, 4, 256, 262_208)
    assert spec.windows[:7] == (1024, 1024, 1024, 1024, 1024, None, 1024)
    assert spec.layer_rope(5) == RopeSpec(1_000_000.0, 256, RopeScaling("linear", 8.0))
    assert spec.layer_rope(0) == RopeSpec(10_000.0, 256)
    assert (spec.tied, spec.embedding_scale, spec.activation) == (True, 2560**0.5, "gelu_tanh")


def test_gemma2_without_soft_caps_by_null() -> None:
    config = {**LLAMA, "model_type": "gemma2", "rope_scaling": None}
    assert spec_from_config(config).logit_softcap == 30.0
    assert spec_from_config(config).windows[:2] == (4096, None)
    bare = spec_from_config({**config, "final_logit_softcapping": None, "attn_logit_softcapping": None})
    assert bare.logit_softcap is None
    assert bare.attention_softcap is None


def test_phi3_long_rope() -> None:
    config = {
        **LLAMA,
        "model_type": "phi3",
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "su", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32},
    }
    scaling = spec_from_config(config).rope.scaling  # type: ignore[union-attr]
    assert scaling == RopeScaling("longrope", 32.0, 4096, short_factors=(1.0,) * 32, long_factors=(2.0,) * 32)


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"use_sliding_window": False, "sliding_window": 100, "max_window_layers": 14}, (None,) * 16),
        ({"use_sliding_window": True, "sliding_window": 100, "max_window_layers": 14}, (None,) * 14 + (100,) * 2),
        ({"sliding_window": 100}, (None,) * 16),
    ],
)
def test_qwen2_windows(changes: dict[str, Any], windows: tuple[int | None, ...]) -> None:
    assert spec_from_config({**LLAMA, "model_type": "qwen2", **changes}).windows == windows


def test_mistral_has_its_window_everywhere() -> None:
    assert spec_from_config({**LLAMA, "model_type": "mistral", "sliding_window": 4096}).windows == (4096,) * 16


def test_smollm3_layers_without_positions() -> None:
    spec = spec_from_config({**LLAMA, "model_type": "smollm3", "rope_scaling": None})
    assert spec.rope_layers[:5] == (True, True, True, False, True)
    assert spec.layer_rope(3) is None


def test_experts() -> None:
    qwen = {
        **LLAMA,
        "model_type": "qwen2_moe",
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
    }
    spec = spec_from_config(
        {**qwen, "shared_expert_intermediate_size": 5632, "mlp_only_layers": [0], "decoder_sparse_step": 2}
    )
    assert spec.experts == ExpertSpec(60, 4, 1408, renormalize=False, shared=5632)
    assert spec.expert_layers[:4] == (False, True, False, True)
    mixtral = spec_from_config({**LLAMA, "model_type": "mixtral", "num_local_experts": 8})
    assert mixtral.experts == ExpertSpec(8, 2, 8192, renormalize=True)


def test_an_unknown_model_type_is_told_what_there_is() -> None:
    with pytest.raises(UnsupportedError) as caught:
        spec_from_config({**LLAMA, "model_type": "mamba"})
    assert "model_type 'mamba' is not supported" in str(caught.value)
    assert all(name in caught.value.hint for name in CONFIG_FAMILIES)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"hidden_size": None}, FormatError, "hidden_size is missing"),
        ({"hidden_size": "big"}, FormatError, "hidden_size must be a whole number"),
        ({"num_hidden_layers": 10**9}, UnsupportedError, "1000000000 layers"),
        ({"num_key_value_heads": 5}, FormatError, "32 attention heads are not a multiple of 5"),
        ({"hidden_act": "swiglu"}, UnsupportedError, "activation 'swiglu'"),
        ({"rope_scaling": {"rope_type": "spiral"}}, UnsupportedError, "rope_type 'spiral'"),
        ({"partial_rotary_factor": 0.99}, FormatError, "rotary width 63 must be even"),
        ({"model_type": 3}, FormatError, "model_type must be a string"),
        (
            {"model_type": "mistral", "sliding_window": 4, "layer_types": ["full_attention"]},
            UnsupportedError,
            "1 entries",
        ),
    ],
)
def test_bad_configs(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        spec_from_config({**LLAMA, **changes})


@pytest.mark.parametrize("key", ["quantization_config", "compression_config", "quantization"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_quantization_that_is_not_in_the_tensors_is_refused_by_name(key: str, inside: bool) -> None:
    """Whatever it is: gptq, awq, fp8, bitsandbytes, compressed-tensors, mlx. Float weights beside it load otherwise."""
    llama = {
        "model_type": "llama", "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4,
    }  # fmt: skip
    for value, named in (({"quant_method": "gptq", "bits": 4}, "'gptq'"), ({"bits": 4, "group_size": 64}, "4")):
        config = {"model_type": "gemma3", key: value, "text_config": llama} if inside else {**llama, key: value}
        nested = {"model_type": "gemma3", "text_config": {**llama, key: value}}
        for each in (config, nested):
            with pytest.raises(UnsupportedError, match=rf"config\.json: {key} \({named}\) is not supported"):
                spec_from_config(each)
    for nothing in (None, {}):
        assert spec_from_config({**llama, key: nothing}).family == "llama"
