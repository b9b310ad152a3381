"""Which tensor of a file is which of ours: tables, one per family and format.

Our names: embedding, embedding_norm, positions, norm, head; per layer attention_norm, q, k, v (or qkv fused), q_norm,
k_norm, output, attention_post_norm, feed_norm, gate, up (or gate_up fused), down, feed_post_norm; router, expert_gate,
expert_up (or expert_gate_up), expert_down, shared_gate, shared_up, shared_down, shared_router. A name that a family's
table lacks is a tensor that the family does not have; one that it has must be in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# Our name -> the file's names without ".weight"; the first one present counts.
Table = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Names:
    """How one format spells one family, and which value transforms its files need (see weights.py).

    prefixes: what `{model}` may stand for, tried in order. biases: weights that must have one (others may).
    norm_offset: what the file leaves out of its RMS norm weights (Gemma: 1). permuted: Q and K rows of each head are
    ordered for interleaved rotation. transposed: matrices that lie as [inputs, rows]. fused_qkv: all Q, then all K,
    then all V ("stacked"), or Q, K, V of each head ("per_head"). ignored: regular expressions of tensors that mean
    nothing here.
    """

    tensors: Table
    prefixes: tuple[str, ...] = ("",)
    biases: frozenset[str] = frozenset()
    norm_offset: float = 0.0
    permuted: bool = False
    transposed: frozenset[str] = frozenset()
    fused_qkv: Literal["stacked", "per_head"] = "stacked"
    ignored: tuple[str, ...] = field(default=())


def _table(**names: str) -> Table:
    return {ours: tuple(theirs.split("|")) for ours, theirs in names.items()}


def _layer(prefix: str, **names: str) -> Table:
    return _table(**{ours: "|".join(prefix + name for name in theirs.split("|")) for ours, theirs in names.items()})


# --- GGUF -------------------------------------------------------------------------------------------------------------
_B = "blk.{layer}."
_G_ENDS = _table(embedding="token_embd", norm="output_norm", head="output")
_G_ATTENTION = _layer(_B, q="attn_q", k="attn_k", v="attn_v", output="attn_output")
_G_FEED = _layer(_B, gate="ffn_gate", up="ffn_up", down="ffn_down")
_G_NORMS = _layer(_B, attention_norm="attn_norm", feed_norm="ffn_norm")
_G_POST_NORMS = _layer(_B, attention_post_norm="post_attention_norm", feed_post_norm="post_ffw_norm")
_G_QK_NORMS = _layer(_B, q_norm="attn_q_norm", k_norm="attn_k_norm")
_G_EXPERTS = _layer(
    _B,
    router="ffn_gate_inp",
    expert_gate="ffn_gate_exps|ffn_gate.{expert}",
    expert_up="ffn_up_exps|ffn_up.{expert}",
    expert_down="ffn_down_exps|ffn_down.{expert}",
)
_G_SHARED = _layer(
    _B,
    shared_gate="ffn_gate_shexp",
    shared_up="ffn_up_shexp",
    shared_down="ffn_down_shexp",
    shared_router="ffn_gate_inp_shexp",
)
_G_LLAMA = {**_G_ENDS, **_G_ATTENTION, **_G_FEED, **_G_NORMS}
_G_GPT = {
    **_G_ENDS,
    **_G_NORMS,
    **_layer(_B, qkv="attn_qkv", output="attn_output", up="ffn_up", down="ffn_down"),
}
_G_IGNORED = (r"rope_freqs\.weight", r"rope_factors_(short|long)\.weight", r"blk\.\d+\.(attn_rot_embd|rope_freqs).*")
_QKV = frozenset({"q", "k", "v"})
_ALL = frozenset({"qkv", "output", "up", "down"})

GGUF_NAMES: Mapping[str, Names] = {
    "llama": Names(_G_LLAMA, permuted=True, ignored=_G_IGNORED),
    "mixtral": Names({**_G_LLAMA, **_G_EXPERTS}, permuted=True, ignored=_G_IGNORED),
    "smollm3": Names(_G_LLAMA, permuted=True, ignored=_G_IGNORED),
    "granite": Names(_G_LLAMA, permuted=True, ignored=_G_IGNORED),
    "qwen2": Names(_G_LLAMA, biases=_QKV, ignored=_G_IGNORED),
    "qwen3": Names({**_G_LLAMA, **_G_QK_NORMS}, ignored=_G_IGNORED),
    "phi3": Names(
        {**_G_ENDS, **_G_NORMS, **_layer(_B, qkv="attn_qkv", output="attn_output", gate_up="ffn_up", down="ffn_down")},
        ignored=_G_IGNORED,
    ),
    "gemma2": Names({**_G_LLAMA, **_G_POST_NORMS}, ignored=_G_IGNORED),
    "gemma3": Names({**_G_LLAMA, **_G_POST_NORMS, **_G_QK_NORMS}, ignored=_G_IGNORED),
    "olmo2": Names({**_G_ENDS, **_G_ATTENTION, **_G_FEED, **_G_POST_NORMS, **_G_QK_NORMS}, ignored=_G_IGNORED),
    "qwen2moe": Names({**_G_LLAMA, **_G_EXPERTS, **_G_SHARED}, ignored=_G_IGNORED),
    "qwen3moe": Names({**_G_LLAMA, **_G_EXPERTS, **_G_QK_NORMS}, ignored=_G_IGNORED),
    "gpt2": Names({**_G_GPT, **_table(positions="position_embd")}, biases=_ALL, ignored=_G_IGNORED),
    "bloom": Names({**_G_GPT, **_table(embedding_norm="token_embd_norm")}, biases=_ALL, ignored=_G_IGNORED),
}

# --- safetensors, as transformers names them --------------------------------------------------------------------------
_L = "{model}layers.{layer}."
_H = "{model}h.{layer}."
_MODEL = ("model.", "language_model.model.", "model.language_model.", "")
_TRANSFORMER = ("transformer.", "")
_S_ENDS = _table(embedding="{model}embed_tokens", norm="{model}norm", head="lm_head|language_model.lm_head")
_S_OUTPUT = _layer(_L, output="self_attn.o_proj")
_S_ATTENTION = {**_layer(_L, q="self_attn.q_proj", k="self_attn.k_proj", v="self_attn.v_proj"), **_S_OUTPUT}
_S_FEED = _layer(_L, gate="mlp.gate_proj", up="mlp.up_proj", down="mlp.down_proj")
_S_NORMS = _layer(_L, attention_norm="input_layernorm", feed_norm="post_attention_layernorm")
_S_POST_NORMS = _layer(_L, attention_post_norm="post_attention_layernorm", feed_post_norm="post_feedforward_layernorm")
_S_GEMMA_NORMS = {
    **_layer(_L, attention_norm="input_layernorm", feed_norm="pre_feedforward_layernorm"),
    **_S_POST_NORMS,
}
_S_QK_NORMS = _layer(_L, q_norm="self_attn.q_norm", k_norm="self_attn.k_norm")
_S_MIXTRAL = _layer(
    _L,
    router="block_sparse_moe.gate|mlp.gate",
    expert_gate_up="mlp.experts.gate_up_proj",
    expert_gate="block_sparse_moe.experts.{expert}.w1",
    expert_up="block_sparse_moe.experts.{expert}.w3",
    expert_down="block_sparse_moe.experts.{expert}.w2|mlp.experts.down_proj",
)
_S_EXPERTS = _layer(
    _L,
    router="mlp.gate",
    expert_gate_up="mlp.experts.gate_up_proj",
    expert_gate="mlp.experts.{expert}.gate_proj",
    expert_up="mlp.experts.{expert}.up_proj",
    expert_down="mlp.experts.{expert}.down_proj|mlp.experts.down_proj",
)
_S_SHARED = _layer(
    _L,
    shared_gate="mlp.shared_expert.gate_proj",
    shared_up="mlp.shared_expert.up_proj",
    shared_down="mlp.shared_expert.down_proj",
    shared_router="mlp.shared_expert_gate",
)
_S_LLAMA = {**_S_ENDS, **_S_ATTENTION, **_S_FEED, **_S_NORMS}
_S_GEMMA = {**_S_ENDS, **_S_ATTENTION, **_S_FEED, **_S_GEMMA_NORMS}
_S_PHI3 = {
    **_S_ENDS,
    **_S_OUTPUT,
    **_S_NORMS,
    **_layer(_L, qkv="self_attn.qkv_proj", gate_up="mlp.gate_up_proj", down="mlp.down_proj"),
}
_S_GPT2 = {
    **_table(embedding="{model}wte", positions="{model}wpe", norm="{model}ln_f", head="lm_head"),
    **_layer(_H, attention_norm="ln_1", qkv="attn.c_attn", output="attn.c_proj"),
    **_layer(_H, feed_norm="ln_2", up="mlp.c_fc", down="mlp.c_proj"),
}
_S_BLOOM = {
    **_table(embedding="{model}word_embeddings", embedding_norm="{model}word_embeddings_layernorm"),
    **_table(norm="{model}ln_f", head="lm_head"),
    **_layer(_H, attention_norm="input_layernorm", qkv="self_attention.query_key_value", output="self_attention.dense"),
    **_layer(_H, feed_norm="post_attention_layernorm", up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
}
_S_XGLM = {
    **_table(embedding="{model}embed_tokens", norm="{model}layer_norm", head="lm_head"),
    **_layer(_L, q="self_attn.q_proj", k="self_attn.k_proj", v="self_attn.v_proj", output="self_attn.out_proj"),
    **_layer(_L, attention_norm="self_attn_layer_norm", feed_norm="final_layer_norm", up="fc1", down="fc2"),
}
_S_IGNORED = (
    r".*\.rotary_emb\.inv_freq",  # computed from the config
    r".*\.attn\.(bias|masked_bias)",  # GPT-2's causal mask
    r".*embed_positions\.weights?",  # XGLM's sines
)


def _model(tensors: Table, *, biases: frozenset[str] = frozenset(), norm_offset: float = 0.0) -> Names:
    return Names(tensors, _MODEL, biases, norm_offset, ignored=_S_IGNORED)


SAFETENSORS_NAMES: Mapping[str, Names] = {
    "llama": _model(_S_LLAMA),
    "mistral": _model(_S_LLAMA),
    "smollm3": _model(_S_LLAMA),
    "granite": _model(_S_LLAMA),
    "qwen2": _model(_S_LLAMA, biases=_QKV),
    "qwen3": _model({**_S_LLAMA, **_S_QK_NORMS}),
    "phi3": _model(_S_PHI3),
    "gemma2": _model(_S_GEMMA, norm_offset=1.0),
    "gemma3": _model({**_S_GEMMA, **_S_QK_NORMS}, norm_offset=1.0),
    "olmo2": _model({**_S_ENDS, **_S_ATTENTION, **_S_FEED, **_S_POST_NORMS, **_S_QK_NORMS}),
    "mixtral": _model({**_S_LLAMA, **_S_MIXTRAL}),
    "qwen2moe": _model({**_S_LLAMA, **_S_EXPERTS, **_S_SHARED}),
    "qwen3moe": _model({**_S_LLAMA, **_S_EXPERTS, **_S_QK_NORMS}),
    "gpt2": Names(_S_GPT2, _TRANSFORMER, biases=_ALL, transposed=_ALL, ignored=_S_IGNORED),
    "bloom": Names(_S_BLOOM, _TRANSFORMER, biases=_ALL, fused_qkv="per_head", ignored=_S_IGNORED),
    "xglm": _model(_S_XGLM, biases=frozenset({"q", "k", "v", "output", "up", "down"})),
}
VISION = r"(model\.)?(vision_tower|multi_modal_projector)\..*"  # what a model that also sees adds
NAMES: Mapping[str, Mapping[str, Names]] = {"gguf": GGUF_NAMES, "safetensors": SAFETENSORS_NAMES}
