"""GGUF keys that nothing here reads: refused where they are known to change answers, else named; damaged tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.errors import UnsupportedError
from cutaway.formats import Tensor, open_model
from cutaway.model import load_decoder, read_spec, spec_from_gguf
from cutaway.model.spec_gguf import GGUF_FAMILIES, gguf_cautions
from cutaway.model.unread_keys import _CHANGING
from cutaway.ops.backends import open_backend
from tiny_llama import WIDTH, weights, write_gguf

SIZES = {
    "block_count": 2, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64,
    "attention.head_count": 4, "attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip
TENSORS = {"token_embd.weight": Tensor("token_embd.weight", "F32", (40, 32), np.zeros(40 * 32 * 4, np.uint8))}


def header(arch: str, keys: dict[str, Any], plain: dict[str, Any] | None = None) -> dict[str, Any]:
    own = {f"{arch}.{key}": value for key, value in (SIZES | keys).items()}
    return {"general.architecture": arch, **own, **(plain or {})}


@pytest.mark.parametrize("key", sorted(_CHANGING))
def test_a_key_that_changes_answers_is_read_or_refused_in_every_family(key: str) -> None:
    """Read: the spec differs, or the key is refused for its value."""
    value: Any = False if key == "attention.causal" else 3
    refused = 0
    for arch in GGUF_FAMILIES:
        more = {"expert_used_count": 2, "expert_feed_forward_length": 8} if key == "expert_count" else {}
        given = header(arch, {**more, key: value})
        try:
            assert spec_from_gguf(given, TENSORS) != spec_from_gguf(header(arch, more), TENSORS), arch
        except UnsupportedError as error:
            assert f"{arch}.{key} = {value}" in str(error)
            refused += 1
            spec_from_gguf(header(arch, {**more, key: type(value)(_CHANGING[key][0])}), TENSORS)
    assert refused


def test_values_for_each_layer_are_looked_at_one_by_one() -> None:
    spec_from_gguf(header("llama", {"attention.clamp_kqv": np.array([0.0, 0.0])}), TENSORS)
    with pytest.raises(UnsupportedError, match=r"llama\.attention\.clamp_kqv = 2 values"):
        spec_from_gguf(header("llama", {"attention.clamp_kqv": np.array([0.0, 8.0])}), TENSORS)


def test_keys_that_nothing_knows_are_named() -> None:
    odd = {"tokenizer.ggml.new_rule": True, "tokenizer.ggml.fim_pre_token_id": 3, "general.name": "x", "": 5}
    first, second = gguf_cautions(header("llama", {"attention.new_thing": 2.5, "vocab_size": 40}, odd), TENSORS)
    assert "llama.attention.new_thing = 2.5" in first and "tokenizer.ggml.new_rule = True" in first
    assert not any(name in first for name in ("fim_pre", "vocab_size", "general"))
    assert "no name" in second
    for arch in GGUF_FAMILIES:
        assert gguf_cautions(header(arch, {}), TENSORS) == []


def test_the_real_models_have_no_odd_keys(smollm2_path: Path) -> None:
    with open_model(smollm2_path) as file:
        assert gguf_cautions(file.metadata, file.tensors) == []


TOKENS = [chr(97 + i) for i in range(20)]


@pytest.mark.parametrize(("name", "place", "value", "where"), [
    ("blk.1.ffn_down.weight", (3, 5), np.nan, "row 3, from input 5 on"),
    ("blk.0.attn_norm.weight", (4,), np.inf, "at 4"),
    ("token_embd.weight", (7, 0), -np.inf, "row 7, from input 0 on"),
])  # fmt: skip
def test_a_damaged_tensor_is_named(
    name: str, place: tuple[int, ...], value: float, where: str, tmp_path: Path
) -> None:
    tensors = weights(len(TOKENS))
    tensors[name][place] = value
    tensors["blk.0.ffn_up.weight"][WIDTH - 1, 0] = value
    path = write_gguf(tmp_path / "m.gguf", {"tokenizer.ggml.tokens": TOKENS}, tensors=tensors)
    found: list[str] = []
    with open_model(path) as file, np.errstate(all="ignore"):
        load_decoder(file, read_spec(file), open_backend("reference"), context=16, warnings=found)
    (told,) = found
    assert f"{name} ({where})" in told and f"blk.0.ffn_up.weight (row {WIDTH - 1}, from input 0 on)" in told
