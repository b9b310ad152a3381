"""GGUF keys that nothing here reads: refused where they are known to change answers, else named.

Source of the names: the GGUF specification, and the keys that llama.cpp's loader reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from cutaway.errors import UnsupportedError

_Values = tuple[float, ...]
# Keys of the architecture that change answers -> the values with which they change none.
_CHANGING: dict[str, _Values] = {
    "logit_scale": (0, 1), "residual_scale": (0, 1), "embedding_scale": (0, 1), "attention.scale": (0,),
    "attention.clamp_kqv": (0,), "attention.max_alibi_bias": (0,), "attn_logit_softcapping": (0,),
    "final_logit_softcapping": (0,), "router_logit_softcapping": (0,), "attention.causal": (1,), "pooling_type": (0,),
    "use_parallel_residual": (0,), "swin_norm": (0,),
    "embedding_length_per_layer_input": (0,), "leading_dense_block_count": (0,),
    "expert_count": (0,), "expert_shared_count": (0,), "expert_weights_scale": (0, 1), "expert_gating_func": (0, 1),
    "expert_group_count": (0, 1), "expert_group_used_count": (0, 1),
    "moe_every_n_layers": (0, 1), "nextn_predict_layers": (0,),
    "attention.q_lora_rank": (0,), "attention.kv_lora_rank": (0,), "attention.shared_kv_layers": (0,),
    "attention.temperature_length": (0,), "attention.temperature_scale": (0,), "attention.output_scale": (0, 1),
    "attention.value_scale": (0, 1), "attention.relative_buckets_count": (0,),
}  # fmt: skip
# Keys of the architecture that change nothing, or only where others, which are checked, say so. "rope.": rope_gguf.py.
_SILENT = frozenset(
    """vocab_size tensor_data_layout decoder_start_token_id expert_used_count expert_feed_forward_length
    expert_shared_feed_forward_length expert_weights_norm attention.layer_norm_epsilon
    attention.layer_norm_rms_epsilon""".split()  # noqa: SIM905
)
# What may stand under "tokenizer.ggml.": read by text/tokenizer, or without a say in how text becomes tokens.
_TOKENIZER = frozenset(
    """model pre tokens token_type token_type_count scores merges add_bos_token add_eos_token add_sep_token
    add_space_prefix remove_extra_whitespaces precompiled_charsmap""".split()  # noqa: SIM905
)


def refuse_unread(metadata: Mapping[str, Any], prefix: str, read: Set[str]) -> None:
    """prefix: of the architecture's keys. read: keys that made the spec.

    Raises UnsupportedError, which names a key that changes answers and was not read.
    """
    for key, value in _unread(metadata, prefix, read):
        neutral = _CHANGING.get(key.removeprefix(prefix))
        if neutral is not None and not _is_one_of(value, neutral):
            raise UnsupportedError(
                f"GGUF: {key} = {_shown(value)} is not supported", hint="without it, answers would be wrong"
            )


def cautions_of_keys(metadata: Mapping[str, Any], prefix: str, read: Set[str]) -> list[str]:
    """Warnings that name keys which nothing here knows, and one without a name."""
    odd = [
        f"{key} = {_shown(value)}"
        for key, value in _unread(metadata, prefix, read)
        if key.removeprefix(prefix) not in _SILENT | _CHANGING.keys()
    ]
    odd += [f"{key} = {_shown(value)}" for key, value in metadata.items() if _odd_tokenizer_key(key)]
    shown = ", ".join(odd[:6]) + (f" and {len(odd) - 6} more" if len(odd) > 6 else "")
    found = [f"GGUF: keys that are not known here: {shown}; if they change answers, these differ"] if odd else []
    if any(not key.strip() for key in metadata):
        found.append("GGUF: a key has no name; its value is not used")
    return found


def _unread(metadata: Mapping[str, Any], prefix: str, read: Set[str]) -> list[tuple[str, Any]]:
    mine = [key for key in metadata if key.startswith(prefix) and not key.startswith(f"{prefix}rope.")]
    return [(key, metadata[key]) for key in mine if key not in read]


def _odd_tokenizer_key(key: str) -> bool:
    name = key.removeprefix("tokenizer.ggml.")
    return name != key and name not in _TOKENIZER and not name.endswith("_token_id")


def _is_one_of(value: Any, neutral: _Values) -> bool:
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return float(value) in neutral
    return isinstance(value, list | tuple | np.ndarray) and all(_is_one_of(each, neutral) for each in value)


def _shown(value: Any) -> str:
    if isinstance(value, bool | int | float | str | np.number | np.bool_):
        return f"{value!s:.40}"
    return f"{len(value)} values" if hasattr(value, "__len__") else "?"
