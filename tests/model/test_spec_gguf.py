"""Specs from GGUF metadata, and that the three real files give what their makers' configs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.errors import CutawayError, FormatError, UnsupportedError
from cutaway.formats import Tensor, open_model
from cutaway.model import kv_groups, kv_layout, read_spec, spec_from_gguf
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import ExpertSpec, RopeSpec
from cutaway.model.spec_gguf import GGUF_FAMILIES

KEYS: dict[str, Any] = {
    "block_count": 12,
    "context_length": 4096,
    "embedding_length": 512,
    "feed_forward_length": 1024,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-6,
}


def tensor(name: str, array: np.ndarray) -> Tensor:
    return Tensor(name, "F32", array.shape, array.astype(np.float32).reshape(-1).view(np.uint8))


def spec(arch: str, changes: dict[str, Any] | None = None, tensors: dict[str, np.ndarray] | None = None) -> Any:
    metadata = {f"{arch}.{k}": v for k, v in {**KEYS, **(changes or {})}.items() if v is not None}
    arrays = {"token_embd.weight": np.zeros((100, 512)), **(tensors or {})}
    return spec_from_gguf({"general.architecture": arch, **metadata}, {n: tensor(n, a) for n, a in arrays.items()})


def test_llama() -> None:
    s = spec("llama")
    assert (s.family, s.layers, s.vocab, s.head_dim, s.kv_heads, s.tied) == ("llama", 12, 100, 64, 2, True)
    assert s.rope == RopeSpec(10_000.0, 64)


def test_mixtral_calls_itself_llama() -> None:
    routers = {f"blk.{i}.ffn_gate_inp.weight": np.zeros((8, 512)) for i in range(1, 12)}
    s = spec("llama", {"expert_count": 8, "expert_used_count": 2}, routers)
    assert s.family == "mixtral"
    assert s.experts == ExpertSpec(8, 2, 1024, renormalize=True)
    assert s.expert_layers == (False,) + (True,) * 11


def test_gemma3_without_pattern_and_local_base() -> None:
    """Case C56: five local layers to one global one, local base 10,000, never scaled."""
    s = spec("gemma3", {"rope.freq_base": 1e6, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0})
    assert s.windows[:7] == (1024,) * 5 + (None, 1024)
    assert s.layer_rope(5) == RopeSpec(1e6, 64, RopeScaling("linear", 8.0))
    assert s.layer_rope(4) == RopeSpec(1e4, 64)


def test_gemma3_with_pattern_and_local_base() -> None:
    s = spec(
        "gemma3", {"attention.sliding_window_pattern": 3, "attention.sliding_window": 9, "rope.freq_base_swa": 5e3}
    )
    assert s.windows[:4] == (9, 9, None, 9)
    assert s.local_rope == RopeSpec(5e3, 64)
    by_layer = spec("gemma3", {"attention.sliding_window_pattern": [True, False] * 6})
    assert by_layer.windows[:3] == (1024, None, 1024)


def test_gemma2() -> None:
    s = spec("gemma2", {"final_logit_softcapping": 20.0})
    assert s.windows[:3] == (4096, None, 4096)
    assert (s.attention_softcap, s.logit_softcap) == (50.0, 20.0)
    assert (
        spec("gemma2", {"block_count": 46, "attention.key_length": 128, "attention.value_length": 128}).attention_scale
        == 0.125
    )


def test_yarn_and_its_extra_factor() -> None:
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    assert spec("qwen2", yarn).rope.scaling == RopeScaling("yarn", 4.0, 1024)
    extra = spec("qwen2", {**yarn, "rope.scaling.attn_factor": 0.5}).rope.scaling
    assert extra.attention_factor == pytest.approx(0.5 * (1 + 0.1 * np.log(4)))


@pytest.mark.parametrize(
    ("arch", "changes", "error", "message"),
    [
        ("mamba", {}, UnsupportedError, "architecture 'mamba' is not supported"),
        ("llama", {"block_count": None}, FormatError, r"llama\.block_count is missing"),
        ("llama", {"attention.head_count_kv": [2, 4]}, UnsupportedError, "differs between layers"),
        ("llama", {"attention.value_length": 32}, UnsupportedError, "values of different widths"),
        ("llama", {"rope.scaling.type": "spiral"}, UnsupportedError, "rope scaling 'spiral'"),
        ("olmo2", {"attention.sliding_window": 64}, UnsupportedError, "OLMo 3"),
        ("gemma3", {"attention.sliding_window_pattern": [True]}, FormatError, "1 entries for 12 layers"),
        ("llama", {"expert_count": 2, "expert_used_count": 3}, FormatError, "3 experts per token of only 2"),
    ],
)
def test_what_is_refused(arch: str, changes: dict[str, Any], error: type[CutawayError], message: str) -> None:
    with pytest.raises(error, match=message):
        spec(arch, changes)


def test_an_unknown_architecture_is_told_what_there_is() -> None:
    with pytest.raises(UnsupportedError) as caught:
        spec("mamba")
    assert all(name in caught.value.hint for name in GGUF_FAMILIES)


def test_groups_of_layers() -> None:
    s = spec("gemma3", {"attention.sliding_window": 9})
    full, window = kv_groups(s)
    assert (full.layers, full.window) == ((5, 11), None)
    assert (window.layers, window.window) == ((0, 1, 2, 3, 4, 6, 7, 8, 9, 10), 9)
    layout = kv_layout(s, pages=(3, 2), page_size=16, key_type="bf16", value_type="int8")
    assert [g.pages for g in layout.groups] == [3, 2]
    assert layout.total_bytes() == 16 * 2 * (64 * 2 + 64 + 4) * (3 * 2 + 2 * 10)
    assert kv_groups(spec("llama")) == ((tuple(range(12)), None),)


@pytest.mark.models
def test_real_files(smollm2_path: Path, qwen_path: Path, gemma_path: Path) -> None:
    with open_model(smollm2_path) as file:
        s = read_spec(file)
    assert (s.family, s.hidden, s.heads, s.kv_heads, s.vocab, s.tied) == ("llama", 576, 9, 3, 49152, True)
    with open_model(qwen_path) as file:
        s = read_spec(file)
    assert (s.family, s.hidden, s.heads, s.kv_heads, s.vocab, s.tied) == ("qwen2", 896, 14, 2, 151936, False)
    with open_model(gemma_path) as file:
        s = read_spec(file)
    assert (s.family, s.hidden, s.heads, s.kv_heads, s.head_dim, s.vocab, s.tied) == (
        "gemma3",
        640,
        4,
        1,
        256,
        262144,
        True,
    )
    assert [i for i, w in enumerate(s.windows) if w is None] == [5, 11, 17]
    assert s.windows[0] == 512
    assert (s.rope, s.local_rope) == (RopeSpec(1e6, 256), RopeSpec(1e4, 256))


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}


@pytest.mark.parametrize(("keys", "scaling"), [
    ({**YARN, "rope.scaling.yarn_ext_factor": 0.0}, RopeScaling("linear", 4.0)),
    ({**YARN, "rope.scaling.yarn_ext_factor": 1.0}, RopeScaling("yarn", 4.0, 1024)),
    ({**YARN, "rope.scaling.yarn_ext_factor": -1.0}, RopeScaling("yarn", 4.0, 1024)),
    ({"rope.scaling.factor": 4.0}, RopeScaling("linear", 4.0)),
    ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, None),
    ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 1.0},
     RopeScaling("linear", 4.0)),
    ({"rope.scaling.finetuned": True}, None),
])  # fmt: skip
def test_rope_keys_that_are_honoured(keys: dict[str, Any], scaling: RopeScaling | None) -> None:
    assert spec("llama", keys).rope.scaling == scaling


@pytest.mark.parametrize(("keys", "name"), [
    ({**YARN, "rope.scaling.yarn_ext_factor": 0.5}, "yarn_ext_factor"),
    ({**YARN, "rope.scaling.yarn_ext_factor": 0.0, "rope.scaling.attn_factor": 1.2}, "attn_factor"),
    ({**YARN, "rope.scaling.yarn_log_multiplier": 0.1}, "yarn_log_multiplier"),
    ({"rope.scaling.factor": 2.0, "rope.scaling.attn_factor": 1.2}, "attn_factor"),
    ({"rope.scaling.factor": 2.0, "rope.scaling.yarn_ext_factor": 1.0}, "yarn_ext_factor"),
    ({"rope.dimension_sections": [1, 2, 3]}, "dimension_sections"), ({"rope.freq_base_swa": 5e3}, "freq_base_swa"),
])  # fmt: skip
def test_rope_keys_that_are_not_are_refused_by_name(keys: dict[str, Any], name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"llama.rope.*{name}"):
        spec("llama", keys)
