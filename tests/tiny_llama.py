"""A tiny random llama, as a GGUF file or as a folder, around any tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

HIDDEN, LAYERS, HEADS, WIDTH, CONTEXT = 32, 2, 4, 64, 256
F32 = np.float32


def weights(vocab: int, seed: int = 7) -> dict[str, np.ndarray]:
    """By GGUF's names. The query and key rows of random weights mean the same in any order."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (vocab, HIDDEN), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        names = {f"attn_{name}": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "output")}
        names |= {"ffn_gate": (WIDTH, HIDDEN), "ffn_up": (WIDTH, HIDDEN), "ffn_down": (HIDDEN, WIDTH)}
        names |= {"attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in names.items()}
    return {
        f"{name}.weight": np.ones(shape, F32) if len(shape) == 1 else rng.normal(0, 0.4, shape).astype(F32)
        for name, shape in shapes.items()
    }


def write_gguf(
    path: Path,
    keys: Mapping[str, Any],
    *,
    vocab: int | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
    model: Mapping[str, Any] | None = None,
) -> Path:
    """keys: the tokenizer's. vocab: rows of the embedding, if they are not its tokens. model: keys without "llama."."""
    writer = gguf.GGUFWriter(path, "llama")
    sizes: dict[str, Any] = {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN, "feed_forward_length": WIDTH,
        "attention.head_count": HEADS, "attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    own = {f"llama.{key}": value for key, value in (sizes | dict(model or {})).items()}
    for key, value in (own | dict(keys)).items():
        if isinstance(value, list | np.ndarray):
            writer.add_array(key, value if isinstance(value, list) else value.tolist())
        else:
            add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
            add[type(value)](key, value)
    for name, array in (tensors or weights(vocab or len(keys["tokenizer.ggml.tokens"]))).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


_NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def write_folder(folder: Path, vocab: int, *, tensors: Mapping[str, np.ndarray] | None = None, **config: Any) -> Path:
    """config.json and model.safetensors; the tokenizer is the caller's."""
    settings: dict[str, Any] = {
        "model_type": "llama", "hidden_size": HIDDEN, "vocab_size": vocab, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "intermediate_size": WIDTH, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings | config))
    header, data = {}, b""
    for name, array in (tensors or weights(vocab)).items():
        *head, stem, _ = name.split(".")
        spelled = "".join(["model.layers.", head[1], "."] if head else []) + _NAMES[stem] + ".weight"
        place = [len(data), len(data) + array.nbytes]
        header[spelled] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": place}
        data += array.astype(F32).tobytes()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder
