"""Writes a transformers model as GGUF, as llama.cpp's converter does: names from the gguf package, values turned as
there. It shares no code with what reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

PERMUTED = ("llama", "smollm3", "granite")  # Q and K rows reordered for ggml's interleaved rotation
GEMMA = ("gemma2", "gemma3")  # norms are written with 1 added
CONV1D = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")  # GPT-2's transposed matrices


def write_gguf(
    model: Any, arch: str, path: Path, metadata: dict[str, Any], quant: str = "F32", extra: dict[str, Any] | None = None
) -> None:
    """Write `model` to `path`. Matrices of layers are quantized to `quant`, and the model gets the rounded values.

    metadata: keys without the architecture's prefix. extra: more tensors, by their GGUF names.
    """
    writer = gguf.GGUFWriter(path, arch)
    for key, value in metadata.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add[type(value)](f"{arch}.{key}", value)
    number = next(n for n, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(number, metadata["block_count"])
    heads = metadata["attention.head_count"]
    for name, value in round_weights(model, quant).items():
        for ours, array in spell(names, arch, name, value, heads, metadata.get("attention.head_count_kv", heads)):
            kind = gguf.GGMLQuantizationType[quant] if quantizes(ours, array) else gguf.GGMLQuantizationType.F32
            data = gguf.quants.quantize(np.ascontiguousarray(array), kind)
            writer.add_tensor(ours, data, raw_dtype=kind)
    for name, array in (extra or {}).items():
        writer.add_tensor(name, np.asarray(array, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantizes(name: str, array: Any) -> bool:
    """Which tensors are quantized: matrices of layers, as usual, but not routers."""
    return array.ndim >= 2 and name.startswith("blk.") and "gate_inp" not in name


def round_weights(model: Any, quant: str) -> dict[str, Any]:
    """The model's parameters as float32 arrays, rounded to `quant`; the model itself gets them too."""
    import torch

    kind = gguf.GGMLQuantizationType[quant]
    tied = "lm_head.weight" if model.config.tie_word_embeddings else ""
    values = {}
    for name, parameter in model.named_parameters():
        array = parameter.detach().numpy()
        layered = ".layers." in name or ".h." in name
        if array.ndim >= 2 and layered and ".gate.weight" not in name and "shared_expert_gate" not in name:
            conv = "c_attn" in name or "c_proj" in name or "c_fc" in name
            turned = np.ascontiguousarray(array.T if conv else array)
            rounded = gguf.quants.dequantize(gguf.quants.quantize(turned, kind), kind).reshape(turned.shape)
            array = rounded.T if conv else rounded
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))
        values[name] = array
    values.pop(tied, None)
    return values


def spell(names: Any, arch: str, name: str, value: Any, heads: int, kv_heads: int) -> list[tuple[str, Any]]:
    """The GGUF tensors, usually one, that a parameter becomes."""
    if name.endswith("experts.gate_up_proj"):
        block = name.split(".")[2]
        gate, up = np.split(value, 2, axis=1)
        return [(f"blk.{block}.ffn_gate_exps.weight", gate), (f"blk.{block}.ffn_up_exps.weight", up)]
    if name.endswith("experts.down_proj"):
        return [(f"blk.{name.split('.')[2]}.ffn_down_exps.weight", value)]
    stem, suffix = name.rsplit(".", 1)
    ours = names.get_name(stem) or names.get_name(stem.removeprefix("transformer."))  # BLOOM's converter drops it
    assert ours is not None, name
    last = ours.split(".")[-1]
    if arch in PERMUTED and last in ("attn_q", "attn_k"):
        value = permute(value, heads if last == "attn_q" else kv_heads)
    if arch in GEMMA and last.endswith("norm"):
        value = value + 1
    if arch == "gpt2" and last in CONV1D and suffix == "weight":
        value = value.T
    if arch == "bloom" and last == "attn_qkv":
        value = np.moveaxis(value.reshape(heads, 3, -1, *value.shape[1:]), 1, 0).reshape(value.shape)
    if last == "ffn_gate_inp_shexp":
        value = value[0]
    return [(f"{ours}.{suffix}", value)]


def permute(value: Any, heads: int) -> Any:
    """Rows j and j + head_dim / 2 of a head become 2j and 2j + 1."""
    return value.reshape(heads, 2, -1, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
