"""What pads a vocabulary or lies beyond it, and which tokens end a text, as a model's files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway import Engine, SamplingParams
from cutaway.errors import TokenizerError
from cutaway.text import load_tokenizer
from text.prefixed import gguf_keys, saved
from tiny_llama import write_folder, write_gguf

PROMPT = "The capital of France is"


def padded_keys(count: int) -> dict[str, Any]:
    keys = gguf_keys()
    names = [f"[PAD{number}]" for number in range(count)]
    return keys | {
        "tokenizer.ggml.tokens": keys["tokenizer.ggml.tokens"] + names,
        "tokenizer.ggml.token_type": np.append(keys["tokenizer.ggml.token_type"], [5] * count).astype(np.int32),
        "tokenizer.ggml.scores": np.append(keys["tokenizer.ggml.scores"], [0.0] * count).astype(np.float32),
    }


@pytest.fixture(scope="module", params=["gguf", "folder"])
def padded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Entries of type unused, and rows of the embedding beyond the tokenizer's."""
    folder: Path = tmp_path_factory.mktemp("padded")
    size = len(gguf_keys()["tokenizer.ggml.tokens"])
    if request.param == "gguf":
        path = write_gguf(folder / "m.gguf", padded_keys(3), vocab=size + 5)
    else:
        saved(folder, "prepend")
        path = write_folder(folder, size + 5)
    with Engine.load(path, backend="reference") as engine:
        yield engine, range(size, size + 5)


@pytest.mark.parametrize("options", [
    {"temperature": 0.0}, {"temperature": 1.0, "seed": 1}, {"temperature": 1.0, "seed": 1, "typical_p": 0.9},
    {"temperature": 1.0, "seed": 1, "mirostat": 2}, {"temperature": 0.0, "logprobs": 3},
    {"temperature": 1.0, "seed": 2, "logprobs": 3, "logprobs_mode": "processed"},
])  # fmt: skip
def test_padding_is_never_drawn(padded: Any, options: dict[str, Any]) -> None:
    engine, padding = padded
    bias = dict.fromkeys(padding, 100.0)
    plain = SamplingParams(max_tokens=12, ignore_eos=True, **options)
    biased = SamplingParams(max_tokens=12, ignore_eos=True, logit_bias=bias, **options)
    first, second = engine.generate([PROMPT, PROMPT], [plain, biased])
    assert set(padding).isdisjoint(first.token_ids) and set(padding).isdisjoint(second.token_ids)
    if options.get("temperature") == 0.0:
        assert first.token_ids == second.token_ids
    if options.get("logprobs_mode") == "processed":
        named = {token for entry in second.logprobs or () for token, value in entry.top if value > -50}
        assert set(padding).isdisjoint(named)


def test_padding_is_no_text(padded: Any) -> None:
    engine, padding = padded
    tokenizer = engine.tokenizer
    for id in padding:
        assert (tokenizer.token_bytes(id), tokenizer.piece(id), tokenizer.kind(id)) == (b"", "", "unused")
        for skip in (True, False):
            assert tokenizer.decode([*tokenizer.encode_part("a"), id, id], skip_special=skip) == "a"
    with pytest.raises(TokenizerError, match="outside"):
        tokenizer.decode([padding[-1] + 1])
    assert set(padding).isdisjoint(tokenizer.encode("[PAD0] [PAD1]", parse_special=True))
    assert engine.generate([*tokenizer.encode("a"), padding[0]], SamplingParams(max_tokens=1)).pop().error is None


def test_a_vocabulary_larger_than_the_embedding_is_named(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", gguf_keys(), vocab=300)
    with pytest.raises(TokenizerError, match="300 rows: token 300"):
        Engine.load(path, backend="reference")
    size = saved(tmp_path, "prepend").vocab_size
    tokenizer = load_tokenizer(tmp_path, {}, rows=size - 1)  # the last is <|im_end|>: Gemma 3 has such a marker
    assert "left out: <|im_end|>" in " ".join(tokenizer.warnings)
    assert max(tokenizer.encode("a<|im_end|>", parse_special=True)) < size - 1
    assert size - 1 not in tokenizer.end_ids


NAMED = [
    ({}, {"eos_token_id": 5}, {5}), ({}, {"eos_token_id": [5, 6]}, {5, 6}),
    ({"eos_token_id": [7]}, {"eos_token_id": [5, 6]}, {7}), ({"eos_token_id": None}, {"eos_token_id": 5}, {5}),
    (None, {"text_config": {"eos_token_id": 9}}, {9}), (None, {}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("generation", "config", "expected"), NAMED)
def test_end_tokens_named_by_number(
    tmp_path: Path, generation: dict[str, Any] | None, config: dict[str, Any], expected: set[int]
) -> None:
    size = saved(tmp_path, "prepend").vocab_size
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    write_folder(tmp_path, size, **{k: v for k, v in config.items() if k != "text_config"})
    if "text_config" in config:
        (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_tokenizer(tmp_path, {}).end_ids - {2, size - 1} == expected


def test_an_answer_ends_at_each_and_none_is_warned_of(tmp_path: Path) -> None:
    size = saved(tmp_path, "prepend").vocab_size
    (tmp_path / "tokenizer_config.json").write_text("{}")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["added_tokens"] = [entry for entry in content["added_tokens"] if entry["content"] != "<|im_end|>"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with Engine.load(write_folder(tmp_path, size), backend="reference") as engine:
        assert any("no end token" in warning for warning in engine.warnings)
    path = write_folder(tmp_path, size, eos_token_id=[20, 21, size + 7])
    with Engine.load(path, backend="reference") as engine:
        assert not any("no end token" in warning for warning in engine.warnings)
        assert any(str(size + 7) in warning for warning in engine.warnings)
        for end in (20, 21):
            params = SamplingParams(temperature=0.0, max_tokens=5, logit_bias={end: 100})
            (result,) = engine.generate(PROMPT, params)
            assert (result.stop.kind, len(result.token_ids)) == ("end_token", 1)
