"""The three real models: headers, first and last values against the gguf package, and the time a header takes."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType

from cutaway.formats import ModelFile, dequantize, open_model

pytestmark = pytest.mark.models


def assert_values_match(model: ModelFile) -> None:
    """The first tensor of each type, a few rows of it."""
    first = {tensor.type: tensor for tensor in reversed(model.tensors.values())}
    for tensor in first.values():
        rows = min(tensor.shape[0], 64) if len(tensor.shape) > 1 else 1
        raw = tensor.raw[: tensor.raw.size // tensor.shape[0] * rows] if len(tensor.shape) > 1 else tensor.raw
        ours = dequantize(tensor.type, raw, (rows, tensor.shape[-1]))
        theirs = gguf.dequantize(raw.reshape(rows, -1), GGMLQuantizationType[tensor.type])
        assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32)), tensor.name


def test_smollm2(smollm2_path: Path) -> None:
    with open_model(smollm2_path) as model:
        tokens, merges = model.metadata["tokenizer.ggml.tokens"], model.metadata["tokenizer.ggml.merges"]
        assert (len(tokens), len(merges), tokens[1]) == (49152, 48900, "<|im_start|>")
        assert model.metadata["llama.rope.freq_base"] == 100000.0
        assert model.metadata["tokenizer.ggml.add_bos_token"] is False
        assert Counter(t.type for t in model.tensors.values()) == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
        assert "output.weight" not in model.tensors
        assert model.tensors["token_embd.weight"].shape == (49152, 576)
        assert_values_match(model)


def test_qwen(qwen_path: Path) -> None:
    with open_model(qwen_path) as model:
        tokens, merges = model.metadata["tokenizer.ggml.tokens"], model.metadata["tokenizer.ggml.merges"]
        assert (len(tokens), len(merges), tokens[151645]) == (151936, 151387, "<|im_end|>")
        assert model.metadata["tokenizer.ggml.token_type"].shape == (151936,)
        assert model.tensors["output.weight"].type != model.tensors["token_embd.weight"].type
        assert Counter(t.type for t in model.tensors.values()) == {
            "Q5_0": 133, "F32": 121, "Q8_0": 13, "Q6_K": 12, "Q4_K": 12,
        }  # fmt: skip
        assert_values_match(model)


def test_gemma(gemma_path: Path) -> None:
    with open_model(gemma_path) as model:
        assert len(model.metadata["tokenizer.ggml.tokens"]) == 262144
        assert model.metadata["tokenizer.ggml.scores"].dtype == np.float32
        assert model.metadata["gemma3.attention.sliding_window"] == 512
        assert_values_match(model)


def test_a_large_header_is_read_quickly(qwen_path: Path) -> None:
    """151,936 tokens and 151,387 merges; the bound is loose, for machines under load."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        with open_model(qwen_path) as model:
            assert len(model.metadata["tokenizer.ggml.tokens"]) + len(model.metadata["tokenizer.ggml.merges"]) == 303323
        best = min(best, time.perf_counter() - begin)
    assert best < 0.15


def test_a_split_copy_of_a_real_model_reads_the_same(smollm2_path: Path, tmp_path: Path) -> None:
    """C56: three parts, opened from the second."""
    with open_model(smollm2_path) as model:
        tensors = list(model.tensors.values())
        for part, chosen in enumerate((tensors[:3], tensors[3:60], tensors[60:])):
            writer = gguf.GGUFWriter(tmp_path / f"m-{part + 1:05}-of-00003.gguf", "llama")
            writer.add_uint16("split.no", part)
            writer.add_uint16("split.count", 3)
            writer.add_int32("split.tensors.count", len(tensors))
            for tensor in chosen:
                raw = tensor.raw.reshape(*tensor.shape[:-1], -1)
                writer.add_tensor(tensor.name, raw, raw_dtype=GGMLQuantizationType[tensor.type])
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
        with open_model(tmp_path / "m-00002-of-00003.gguf") as split:
            assert list(split.tensors) == list(model.tensors)
            for name, tensor in split.tensors.items():
                assert (tensor.type, tensor.shape) == (model.tensors[name].type, model.tensors[name].shape)
                assert np.array_equal(tensor.raw, model.tensors[name].raw)
