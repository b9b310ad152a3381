from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cutaway.errors import TokenizerError, UnsupportedError
from cutaway.text import Tokenizer

Load = Callable[[dict[str, Any]], Tokenizer]
Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("name", ["default", "no-such-kind", None])
def test_an_unknown_or_absent_pre_tokenizer_is_refused_by_name(
    load: Load, byte_level_metadata: Make, name: str | None
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load(byte_level_metadata(pre=name))
    assert caught.value.code == "pre_tokenizer_unknown"
    assert (name or "tokenizer.ggml.pre is missing") in caught.value.message


@pytest.mark.parametrize("model", ["bert", "t5", "rwkv", None])
def test_other_kinds_of_vocabulary_are_refused_by_name(
    load: Load, byte_level_metadata: Make, model: str | None
) -> None:
    with pytest.raises(UnsupportedError, match=repr(model)):
        load(byte_level_metadata(model=model))


def test_the_pre_tokenizer_decides_the_ids(load: Load, byte_level_metadata: Make) -> None:
    digits = load(byte_level_metadata(pre="qwen2"))
    threes = load(byte_level_metadata(pre="llama-bpe"))
    assert digits.decode(digits.encode("1212")) == "1212"
    assert len(digits.encode("1212")) == 4
    assert [threes.piece(id) for id in threes.encode("1212", add_special=False)] == ["12", "1", "2"]


@pytest.mark.parametrize(("pre", "adds"), [("llama-bpe", True), ("tekken", True), ("qwen2", False), ("gpt-2", False)])
def test_who_adds_bos_when_the_file_does_not_say(load: Load, byte_level_metadata: Make, pre: str, adds: bool) -> None:
    assert load(byte_level_metadata(pre=pre)).add_bos is adds
    assert load(byte_level_metadata(pre=pre, add_bos_token=not adds)).add_bos is not adds


def test_composed_form_where_the_models_own_tokenizer_has_it(load: Load, byte_level_metadata: Make) -> None:
    composed = load(byte_level_metadata(pre="qwen2"))
    as_is = load(byte_level_metadata(pre="smollm"))
    assert composed.encode("cafe\u0301") == composed.encode("caf\u00e9")
    assert as_is.encode("cafe\u0301") != as_is.encode("caf\u00e9")


def test_words_that_are_tokens_are_taken_whole_where_merges_are_ignored(load: Load, byte_level_metadata: Make) -> None:
    tokens = byte_level_metadata()["tokenizer.ggml.tokens"] + ["zyx"]
    change = {"tokens": tokens, "token_type": None}
    whole = load(byte_level_metadata(pre="llama-bpe", **change))
    merged = load(byte_level_metadata(pre="dbrx", **change))
    assert whole.encode("zyx", add_special=False) == [len(tokens) - 1]
    assert len(merged.encode("zyx")) == 3


def test_end_tokens_come_from_the_file_and_from_well_known_names(load: Load, byte_level_metadata: Make) -> None:
    assert load(byte_level_metadata()).end_ids == {0, 2}
    assert load(byte_level_metadata(eos_token_id=1, eot_token_id=5)).end_ids == {0, 1, 2, 5}


@pytest.mark.parametrize("none", [-1, 0xFFFF_FFFF])
def test_a_role_that_no_token_has(load: Load, byte_level_metadata: Make, none: int) -> None:
    """Converters write -1, signed or not."""
    roles = {f"{role}_token_id": none for role in ("padding", "unknown", "eot", "bos")}
    tokenizer = load(byte_level_metadata(**roles))
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id) == (None, None, None)
    assert tokenizer.end_ids == load(byte_level_metadata()).end_ids


def test_in_gpt_oss_the_end_of_a_message_is_not_the_end(load: Load, byte_level_metadata: Make) -> None:
    tokens = byte_level_metadata()["tokenizer.ggml.tokens"]
    types = list(byte_level_metadata()["tokenizer.ggml.token_type"])
    names = ["<|end|>", "<|return|>", "<|call|>"]
    ends = load(byte_level_metadata(tokens=tokens + names, token_type=np.array(types + [3] * 3))).end_ids
    assert len(tokens) not in ends
    assert {len(tokens) + 1, len(tokens) + 2} <= ends


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": None}, "tokens is missing"),
        ({"merges": None}, "merges is missing"),
        ({"tokens": np.arange(3)}, "tokens must be an array of strings"),
        ({"token_type": np.array([1])}, "1 entries for"),
        ({"bos_token_id": 10**6}, "token id 1000000 is outside"),
        ({"merges": ["a b c"]}, "two parts"),
        ({"merges": ["ab"]}, "two parts"),
        ({"merges": ["zz zz"]}, "does not fit"),
    ],
)
def test_a_vocabulary_that_contradicts_itself(
    load: Load, byte_level_metadata: Make, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(TokenizerError, match=message):
        load(byte_level_metadata(**change)).prepare()


@pytest.mark.parametrize("scores", [None, np.zeros(3, np.float32)])
def test_sentencepiece_needs_scores(load: Load, sentencepiece_metadata: Make, scores: Any) -> None:
    with pytest.raises(TokenizerError, match="score for each token"):
        load(sentencepiece_metadata(scores=scores))


def test_tokens_left_as_plain_text_are_still_found(load: Load, byte_level_metadata: Make) -> None:
    """Some converters write words of a byte-level vocabulary as they read."""
    metadata = byte_level_metadata()
    tokens = [token.replace("\u0120", " ") if len(token) > 2 else token for token in metadata["tokenizer.ggml.tokens"]]
    tokenizer = load(byte_level_metadata(tokens=tokens))
    ids = tokenizer.encode(" hello")
    assert [tokenizer.piece(id) for id in ids] == [" hello"]
    assert tokenizer.decode(ids) == " hello"
