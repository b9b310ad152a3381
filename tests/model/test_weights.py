"""Loading: tied embeddings, missing and unknown tensors, sources given back, experts in both shapes, options."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest

from cutaway.errors import CutawayError, FormatError, ParameterError, UnsupportedError
from cutaway.formats import ModelFile, Tensor
from cutaway.model import load_decoder, parse_rope_scaling, read_spec
from cutaway.ops.reference_backend import ReferenceBackend

HIDDEN, HEADS, KV, HEAD, WIDTH, VOCAB, LAYERS = 32, 4, 2, 8, 64, 40, 2


class Fake:
    """A ModelFile with made-up tensors; it notes what was dropped."""

    def __init__(
        self, format: str, tensors: dict[str, np.ndarray], metadata: dict[str, Any], config: Any = None
    ) -> None:
        self.path, self.format, self.metadata, self.config = Path("model.bin"), format, metadata, config
        self.tensors = {name: as_tensor(name, array) for name, array in tensors.items()}
        self.dropped: list[str] = []

    def drop(self, tensor: Tensor) -> None:
        self.dropped.append(tensor.name)


def as_tensor(name: str, array: np.ndarray) -> Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return Tensor(name, "BF16", array.shape, array.view(np.uint16).reshape(-1).view(np.uint8))
    return Tensor(name, "F32", array.shape, np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint8))


def load(fake: Fake, **options: Any) -> Any:
    file: ModelFile = fake  # type: ignore[assignment]
    return load_decoder(file, read_spec(file), ReferenceBackend(), context=16, **options)


def shapes() -> dict[str, tuple[int, ...]]:
    q, kv = HEADS * HEAD, KV * HEAD
    return {
        "attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,), "attn_q": (q, HIDDEN), "attn_k": (kv, HIDDEN),
        "attn_v": (kv, HIDDEN), "attn_output": (HIDDEN, q), "ffn_gate": (WIDTH, HIDDEN), "ffn_up": (WIDTH, HIDDEN),
        "ffn_down": (HIDDEN, WIDTH),
    }  # fmt: skip


def llama_gguf(**changes: np.ndarray | None) -> Fake:
    """A GGUF llama; `changes` adds, replaces or (None) removes tensors, with __ for a dot."""
    rng = np.random.default_rng(0)
    tensors = {
        f"blk.{i}.{name}.weight": rng.normal(size=shape).astype(np.float32)
        for i in range(LAYERS)
        for name, shape in shapes().items()
    }
    tensors["token_embd.weight"] = rng.normal(size=(VOCAB, HIDDEN)).astype(np.float32)
    tensors["output_norm.weight"] = np.ones(HIDDEN, np.float32)
    for name, array in changes.items():
        tensors.pop(name.replace("__", "."), None)
        if array is not None:
            tensors[name.replace("__", ".")] = array
    metadata = {
        "general.architecture": "llama", "llama.block_count": LAYERS, "llama.embedding_length": HIDDEN,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV, "llama.context_length": 128,
        "llama.feed_forward_length": WIDTH, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    return Fake("gguf", tensors, metadata)


def llama_config(*, tied: bool, head: bool) -> Fake:
    names = {
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    }  # fmt: skip
    rng = np.random.default_rng(0)
    tensors = {
        f"model.layers.{i}.{names[name]}.weight": rng.normal(size=shape).astype(np.float32)
        for i in range(LAYERS)
        for name, shape in shapes().items()
    }
    tensors["model.embed_tokens.weight"] = rng.normal(size=(VOCAB, HIDDEN)).astype(ml_dtypes.bfloat16)
    tensors["model.norm.weight"] = np.ones(HIDDEN, np.float32)
    if head:
        tensors["lm_head.weight"] = rng.normal(size=(VOCAB, HIDDEN)).astype(np.float32)
    config = {
        "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV, "intermediate_size": WIDTH, "vocab_size": VOCAB, "max_position_embeddings": 128,
        "tie_word_embeddings": tied,
    }  # fmt: skip
    return Fake("safetensors", tensors, {}, config)


def values(fake: Fake, name: str) -> Any:
    tensor = fake.tensors[name]
    kind = gguf.GGMLQuantizationType[tensor.type]
    return gguf.quants.dequantize(tensor.raw, kind).reshape(tensor.shape)


class TestTied:
    """Case C54."""

    def test_gguf_without_an_output_uses_the_embedding(self) -> None:
        fake = llama_gguf()
        np.testing.assert_array_equal(load(fake).head.values, values(fake, "token_embd.weight"))

    def test_gguf_with_an_output_uses_it(self) -> None:
        fake = llama_gguf(output__weight=np.full((VOCAB, HIDDEN), 2, np.float32))
        assert (load(fake).head.values == 2).all()

    def test_tied_safetensors_may_carry_a_copy_that_the_embedding_overrules(self) -> None:
        fake = llama_config(tied=True, head=True)
        np.testing.assert_array_equal(load(fake).head.values, values(fake, "model.embed_tokens.weight"))

    def test_tied_safetensors_without_a_head(self) -> None:
        fake = llama_config(tied=True, head=False)
        np.testing.assert_array_equal(load(fake).head.values, values(fake, "model.embed_tokens.weight"))

    def test_untied_safetensors_without_a_head_is_an_error(self) -> None:
        with pytest.raises(FormatError, match=r"lm_head\.weight.* is missing"):
            load(llama_config(tied=False, head=False))


def test_every_packed_tensor_is_given_back() -> None:
    fake = llama_gguf()
    load(fake)
    matrices = {name for name, tensor in fake.tensors.items() if len(tensor.shape) == 2}
    assert set(fake.dropped) == matrices
    assert len(fake.dropped) == len(matrices)


@pytest.mark.parametrize("name", ["blk.1.attn_v", "blk.0.ffn_norm", "output_norm", "token_embd"])
def test_a_missing_tensor_is_named(name: str) -> None:
    with pytest.raises(FormatError, match=name.replace(".", r"\.")):
        load(llama_gguf(**{f"{name.replace('.', '__')}__weight": None}))


def test_a_wrong_shape_is_told_with_both_shapes() -> None:
    with pytest.raises(FormatError, match=r"blk\.0\.ffn_up\.weight has shape \(3, 32\), expected \(64, 32\)"):
        load(llama_gguf(blk__0__ffn_up__weight=np.ones((3, HIDDEN), np.float32)))


def test_a_tensor_that_nothing_reads_is_an_error() -> None:
    """A file with q/k norms under the name llama would load and answer nonsense."""
    with pytest.raises(UnsupportedError, match=r"does not use: blk\.0\.attn_q_norm\.weight"):
        load(llama_gguf(blk__0__attn_q_norm__weight=np.ones(HEAD, np.float32)))


def test_per_expert_and_stacked_experts_give_the_same_weights() -> None:
    """Old checkpoints have a tensor per expert, new ones two stacked; the same numbers must come of both."""
    rng = np.random.default_rng(1)
    count, width = 3, 16
    gate_up = rng.normal(size=(count, 2 * width, HIDDEN)).astype(np.float32)
    down = rng.normal(size=(count, HIDDEN, width)).astype(np.float32)
    loaded = []
    for stacked in (True, False):
        fake = llama_config(tied=True, head=False)
        fake.config |= {"model_type": "mixtral", "num_local_experts": count, "intermediate_size": width}
        for i in range(LAYERS):
            for name in ("gate", "up", "down"):
                del fake.tensors[f"model.layers.{i}.mlp.{name}_proj.weight"]
            stem = f"model.layers.{i}."
            new = {stem + "mlp.gate.weight": np.eye(count, HIDDEN)}
            if stacked:
                new |= {stem + "mlp.experts.gate_up_proj": gate_up, stem + "mlp.experts.down_proj": down}
            else:
                new = {stem + "block_sparse_moe.gate.weight": np.eye(count, HIDDEN)}
                for e in range(count):
                    expert = f"{stem}block_sparse_moe.experts.{e}."
                    new |= {expert + "w1.weight": gate_up[e, :width], expert + "w3.weight": gate_up[e, width:]}
                    new |= {expert + "w2.weight": down[e]}
            fake.tensors |= {name: as_tensor(name, array) for name, array in new.items()}
        loaded.append(load(fake).layers[1].feed)
    for part in ("gate", "up", "down"):
        for a, b in zip(getattr(loaded[0], part), getattr(loaded[1], part), strict=True):
            np.testing.assert_array_equal(a.values, b.values)


def test_rope_tables_are_shared_and_have_the_configured_length() -> None:
    layers = load(llama_gguf()).layers
    assert layers[0].rope is layers[1].rope
    assert layers[0].rope.cos.shape == (16, HEAD // 2)


def test_rope_scaling_needs_rotary_positions(tmp_path: Path) -> None:
    fake = llama_gguf()
    fake.metadata = {k.replace("llama.", "bloom."): v for k, v in fake.metadata.items()}
    fake.metadata |= {"general.architecture": "bloom"}
    with pytest.raises(ParameterError, match="bloom has no rotary positions"):
        load(fake, rope_scaling=parse_rope_scaling("yarn:4"))


def test_learned_positions_end_somewhere() -> None:
    width = 3 * HIDDEN
    block = {
        "attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,), "attn_qkv": (width, HIDDEN), "attn_output": (HIDDEN, HIDDEN),
        "ffn_up": (WIDTH, HIDDEN), "ffn_down": (HIDDEN, WIDTH),
    }  # fmt: skip
    tensors = {f"blk.0.{n}.weight": np.ones(s, np.float32) for n, s in block.items()}
    tensors |= {f"blk.0.{n}.bias": np.ones(s[0], np.float32) for n, s in block.items()}
    tensors |= {"token_embd.weight": np.ones((VOCAB, HIDDEN)), "position_embd.weight": np.ones((8, HIDDEN))}
    tensors |= {"output_norm.weight": np.ones(HIDDEN), "output_norm.bias": np.ones(HIDDEN)}
    metadata = {
        "general.architecture": "gpt2", "gpt2.block_count": 1, "gpt2.embedding_length": HIDDEN,
        "gpt2.attention.head_count": HEADS, "gpt2.context_length": 8, "gpt2.feed_forward_length": WIDTH,
        "gpt2.attention.layer_norm_epsilon": 1e-5,
    }  # fmt: skip
    with pytest.raises(ParameterError, match="16 tokens, but the model has learned positions for 8 only"):
        load(Fake("gguf", tensors, metadata))
    del tensors["blk.0.ffn_up.bias"]
    with pytest.raises(CutawayError, match=r"blk\.0\.ffn_up\.bias is missing"):
        load(Fake("gguf", tensors, metadata))


@pytest.mark.oracle
@pytest.mark.parametrize("case", ["gemma", "gpt2-without-prefix"])
def test_names_of_a_model_inside_another(
    case: str, run: Callable[..., Any], tiny_model: Callable[..., Any], tmp_path: Path
) -> None:
    """The language part of a model that also sees, and GPT-2 as it was first published, under their names."""
    import json

    from safetensors.numpy import load_file, save_file

    sizes = {
        "vocab_size": 97,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "hidden_size": 32,
        "pad_token_id": None,
    }
    if case == "gemma":
        settings = {**sizes, "head_dim": 8, "num_key_value_heads": 2, "intermediate_size": 48}
        tiny_model(tmp_path / "plain", "Gemma3TextConfig", settings)
    else:
        tiny_model(tmp_path / "plain", "GPT2Config", {"vocab_size": 97, "n_layer": 2, "n_head": 4, "n_embd": 32})
    (tmp_path / "renamed").mkdir()
    tensors = load_file(tmp_path / "plain" / "model.safetensors")
    config = json.loads((tmp_path / "plain" / "config.json").read_text())
    if case == "gemma":
        tensors = {f"language_model.{name}": array for name, array in tensors.items()}
        tensors["vision_tower.patch.weight"] = np.ones((2, 2), np.float32)
        config = {"model_type": "gemma3", "text_config": config}
    else:
        tensors = {name.removeprefix("transformer."): array for name, array in tensors.items()}
        tensors["h.0.attn.bias"] = np.ones((1, 1, 4, 4), np.float32)
    save_file(tensors, tmp_path / "renamed" / "model.safetensors")
    (tmp_path / "renamed" / "config.json").write_text(json.dumps(config))
    ids = list(range(9))
    seen = pytest.warns(UserWarning, match="1 tensors of its vision part") if case == "gemma" else nullcontext()
    with seen:
        renamed = run(tmp_path / "renamed", ids)
    np.testing.assert_array_equal(renamed, run(tmp_path / "plain", ids))
