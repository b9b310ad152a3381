"""Folders with a tokenizer.model alone, against SentencePiece's own ids and transformers'."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import TokenizerError, UnsupportedError
from cutaway.text import Segment, Tokenizer, load_tokenizer
from text.test_against_transformers import TRAINING, corpus

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

LLAMA = {
    "model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "no prefix": {"add_dummy_prefix": False},
    "no bytes": {"byte_fallback": False},
    "extra blanks go": {"remove_extra_whitespaces": True},
    "extra blanks go, no prefix": {"remove_extra_whitespaces": True, "add_dummy_prefix": False},
    "user pieces": {"user_defined_symbols": ["qui", "\n\n", "\u2581\u2581", "\u2581\u2581\u2581", "own\u2581f", "1"]},
    "other roles": {"unk_id": 3, "bos_id": 1, "eos_id": 0, "pad_id": 2},
}
MORE = [
    "", " ", "   ", " a", "  The  quick ", "a\n\n\nb", "    deep", "x   ", "\u2581", "<s>", "</s><0x41>", "<unk> 1 11",
    "the quick brown fox", "quiqui", "own fox", "brown fox", "\u65e5\u672c \U0001f600\U0001f600", "\t tab\r\n",
]  # fmt: skip


def train(folder: Path, **options: Any) -> Any:
    """A model in the folder, and SentencePiece's own processor of it."""
    import sentencepiece

    (folder / "text").write_text(TRAINING)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "tokenizer"), minloglevel=2,
        **{"vocab_size": 340 if (LLAMA | options)["byte_fallback"] else 90} | LLAMA | options,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


def configure(folder: Path, name: str = "tokenizer_config.json", **content: Any) -> Tokenizer:
    (folder / name).write_text(json.dumps(content))
    return load_tokenizer(folder, {})


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_text_are_sentencepieces(tmp_path: Path, kind: str) -> None:
    theirs = train(tmp_path, **KINDS[kind])
    ours = load_tokenizer(tmp_path, {})
    for text in [*MORE, *corpus()]:
        ids = theirs.encode(text)
        assert ours.encode(text, add_special=False) == ids, text[:80]
        assert ours.encode(text) == [theirs.bos_id(), *ids]
        if "\u2581" not in text and theirs.unk_id() not in ids:
            assert ours.decode(ids) == theirs.decode(ids)
        spans = ours.pieces(text)
        assert [span.id for span in spans] == ids
        assert not spans or spans[-1].end == len(text)
    assert (ours.bos_id, ours.eos_id, ours.unk_id) == (theirs.bos_id(), theirs.eos_id(), theirs.unk_id())
    assert ours.eos_id in ours.end_ids


@given(st.text("aeth qu\n\u2581<s>1\u00e9", max_size=30))
@pytest.mark.parametrize("kind", ["llama", "user pieces", "extra blanks go"])
def test_any_text(kind: str, text: str) -> None:
    theirs, ours = trained(kind)
    assert ours.encode(text, add_special=False) == theirs.encode(text)


@cache
def trained(kind: str) -> tuple[Any, Tokenizer]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = train(Path(folder), **KINDS[kind]), load_tokenizer(Path(folder), {})
        ours.prepare()
    return theirs, ours


ADDED = {
    "32": {"content": "<|turn|>", "special": True, "normalized": False},
    "340": {"content": "<|im_end|>", "special": True, "rstrip": True, "normalized": False},
    "341": {"content": "<tool_call>", "special": False, "normalized": False},
    "343": {"content": "foxes", "special": False, "normalized": False},
}


@pytest.mark.parametrize("legacy", [None, False, True])
@pytest.mark.parametrize("bos", [True, False])
def test_added_tokens_are_transformers(tmp_path: Path, legacy: bool | None, bos: bool) -> None:
    from transformers import AutoTokenizer

    train(tmp_path)
    settings: dict[str, Any] = {"legacy": legacy, "add_bos_token": bos}
    decoder = {id: entry for id, entry in ADDED.items() if int(id) >= 340 and id != "343"} | {"342": ADDED["343"]}
    ours = configure(
        tmp_path, tokenizer_class="LlamaTokenizer", bos_token="<s>",
        eos_token={"__type": "AddedToken", "content": "<|im_end|>"},
        added_tokens_decoder=decoder, **{key: value for key, value in settings.items() if value is not None},
    )  # fmt: skip
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    texts = ["The fox", "The fox<|im_end|>The fox", "a<|im_end|>\n b</s>", "a<tool_call>b c", "two foxes run"]
    for text in texts:
        assert ours.encode(text, parse_special=True) == theirs.encode(text), text
    assert ours.eos_id == 340
    assert ours.kind(342) == "user"
    assert ours.encode("<|im_end|>", add_special=False) != [340]
    both = [Segment("<|im_end|>", True), Segment("The fox", False)]
    assert ours.encode_segments(both)[1:] == (
        ours.encode("The fox", add_special=False) if legacy else ours.encode_part("The fox")
    )


def test_renamed_padded_and_listed_tokens(tmp_path: Path) -> None:
    theirs = train(tmp_path)
    (tmp_path / "added_tokens.json").write_text('{"<pad>": 341, "foxes": 345}')
    ours = configure(tmp_path, pad_token="<pad>", added_tokens_decoder={"300": ADDED["32"]}, add_eos_token=True)
    assert (ours.pad_id, ours.kind(341), ours.kind(342), ours.piece(342), ours.kind(345)) == (
        341, "control", "unused", "", "user",
    )  # fmt: skip
    assert ours.encode("<|turn|>", add_special=False, parse_special=True) == [300]
    assert theirs.id_to_piece(300) != ours.piece(300) == "<|turn|>"
    assert ours.encode("the fox")[-1] == ours.eos_id


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"x": ADDED["32"]}, "not an id"),
        ({"340": 5}, "not an id"),
        ({"340": {"content": 5}}, "the text 5"),
        ({"340": {}}, "the text None"),
        ({"999999999": ADDED["32"]}, "beyond the 340 pieces"),
        ({"340": {"content": "<s>"}}, "'<s>' twice"),
    ],
)
def test_added_tokens_that_contradict_the_model(tmp_path: Path, decoder: dict[str, Any], message: str) -> None:
    train(tmp_path)
    with pytest.raises(TokenizerError, match=message):
        configure(tmp_path, added_tokens_decoder=decoder)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model_type": "unigram", "vocab_size": 310}, "Unigram"),
        ({"model_type": "char", "byte_fallback": False}, "character"),
        ({"normalization_rule_name": "nmt_nfkc"}, "normalizer_spec.precompiled_charsmap"),
        ({"user_defined_symbols": ["\u2581\u2581"], "remove_extra_whitespaces": True}, "remove_extra_whitespaces"),
        ({"treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix"),
        ({"denormalization_rule_tsv": True}, "denormalizer_spec"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, options: dict[str, Any], named: str) -> None:
    if "denormalization_rule_tsv" in options:
        (tmp_path / "rules").write_text("41\t42\n")
        options = {"denormalization_rule_tsv": str(tmp_path / "rules")}
    small = {"vocab_size": 30, "hard_vocab_limit": False} if options.get("model_type") == "char" else {}
    train(tmp_path, **{**options, **small})
    with pytest.raises(UnsupportedError, match=named) as caught:
        load_tokenizer(tmp_path, {})
    assert caught.value.code == "tokenizer_unsupported"


def test_tokenizer_json_goes_first(tmp_path: Path) -> None:
    train(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UnsupportedError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path, {})
