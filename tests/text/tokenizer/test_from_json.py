from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from cutaway.errors import TokenizerError, UnsupportedError
from cutaway.text import Tokenizer, load_tokenizer
from cutaway.text.tokenizer.vocabulary import byte_alphabet

TEXTS = ["hello world", " hello", "cafe\u0301 \U0001f680", "a  b\n\n", "", "\0", "<|im_end|>x", "a <mask> b", "<tool>a"]


def byte_level() -> Library:
    vocab = {token: id for id, token in enumerate([*byte_alphabet(), "he", "ll", "hell", "hello"])}
    library = Library(models.BPE(vocab=vocab, merges=[("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o")]))
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(
        [AddedToken("<|im_end|>", special=True), AddedToken("<mask>", special=True, lstrip=True)]
    )
    library.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("  ", normalized=False)])
    return library


def sentencepiece(prepend: str) -> Library:
    texts = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "\u2581",
        *"helowrd<|im_>",
        "\u2581he",
        "he",
        "ll",
    ]
    vocab = {token: id for id, token in enumerate(texts)}
    merges = [("h", "e"), ("\u2581", "he"), ("l", "l")]
    library = Library(models.BPE(vocab=vocab, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme=prepend, split=False)
    library.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    library.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
    )
    library.add_special_tokens(["<unk>", "<s>", "</s>", "<|im_end|>"])
    return library


def saved(library: Library, folder: Path, **config: Any) -> Tokenizer:
    library.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return load_tokenizer(folder / "model.safetensors", {})


@pytest.mark.parametrize(
    "library", [byte_level(), sentencepiece("first"), sentencepiece("always"), sentencepiece("never")]
)
def test_ids_and_text_are_the_librarys(library: Library, tmp_path: Path) -> None:
    tokenizer = saved(library, tmp_path, eos_token="<|im_end|>")
    for text in TEXTS:
        ids = library.encode(text).ids
        assert tokenizer.encode(text, parse_special=True) == ids
        assert tokenizer.decode(ids, skip_special=True) == library.decode(ids, skip_special_tokens=True)


def test_markers_are_text_unless_the_caller_says(tmp_path: Path) -> None:
    tokenizer = saved(byte_level(), tmp_path)
    for text in ("<|im_end|>", "<tool>", "<mask>"):
        assert len(tokenizer.encode(text, parse_special=True)) == 1
        assert len(tokenizer.encode(text)) == len(text)
    assert tokenizer.kind(tokenizer.encode("a  b")[1]) == "user"


def test_special_ids_come_from_the_config_and_the_post_processor(tmp_path: Path) -> None:
    tokenizer = saved(sentencepiece("first"), tmp_path, eos_token={"content": "</s>"}, unk_token="<unk>")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 5]}')
    tokenizer = load_tokenizer(tmp_path, {})
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 0)
    assert tokenizer.add_bos
    assert tokenizer.end_ids == {2, 5, tokenizer.vocabulary.ids["<|im_end|>"]}
    assert tokenizer.encode("he")[0] == 1
    assert tokenizer.kind(3) == "byte"


def test_merges_that_lead_to_a_control_token_are_stopped(tmp_path: Path) -> None:
    library = byte_level()
    content = json.loads(library.to_str())
    content["model"]["vocab"].update({"<s": 1000, "<s>": 1001})
    content["model"]["merges"] += [["<", "s"], ["<s", ">"]]
    content["added_tokens"].append({**content["added_tokens"][0], "id": 1001, "content": "<s>"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = load_tokenizer(tmp_path, {})
    assert 1001 not in tokenizer.encode("a<s>b<s><s>")
    assert tokenizer.decode(tokenizer.encode("a<s>b<s><s>")) == "a<s>b<s><s>"
    assert tokenizer.encode("<s>", parse_special=True) == [1001]
    assert [(piece.start, piece.end) for piece in tokenizer.pieces("<s>")] == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("content", "error", "what"),
    [
        ("{", TokenizerError, "not valid JSON"),
        ("[]", TokenizerError, "must contain a JSON object"),
        ('{"model": {"type": "WordPiece", "vocab": {}}}', UnsupportedError, "WordPiece"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}}, "decoder": null}', UnsupportedError, "decoder"),
        (
            '{"model": {"type": "BPE", "vocab": {"a": 9000000000}}, "decoder": {"type": "ByteLevel"}}',
            TokenizerError,
            "ids up to",
        ),
        ('{"model": {"type": "BPE", "vocab": {"a": -1}}, "decoder": {"type": "ByteLevel"}}', TokenizerError, "ids"),
        (
            '{"model": {"type": "BPE", "vocab": {"a": "b"}}, "decoder": {"type": "ByteLevel"}}',
            TokenizerError,
            "usable id",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: str, error: type[Exception], what: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(error, match=what):
        load_tokenizer(tmp_path, {})


def test_a_model_the_library_refuses(tmp_path: Path) -> None:
    content = json.loads(byte_level().to_str())
    content["model"]["merges"] = [["no", "such"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json cannot be used"):
        load_tokenizer(tmp_path, {}).encode("a")


def test_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path, {})
