"""Unigram vocabularies (XGLM) against transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cutaway.errors import TokenizerError
from cutaway.text import load_tokenizer
from text.test_against_transformers import TRAINING, corpus

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """XGLM's own tokenizer class around a trained model."""
    import sentencepiece
    from transformers import XGLMTokenizer

    (tmp_path / "text").write_text(TRAINING)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "m"), vocab_size=60, model_type="unigram",
        character_coverage=1.0, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    pieces = [(model.id_to_piece(id), model.get_score(id)) for id in range(3, model.get_piece_size())]
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces]
    folder = tmp_path / "saved"
    XGLMTokenizer(vocab=vocab).save_pretrained(folder)
    return folder


def test_ids_and_text_are_those_of_transformers(saved: Path) -> None:
    from transformers import AutoTokenizer

    theirs, ours = AutoTokenizer.from_pretrained(saved), load_tokenizer(saved, {})
    for text in corpus():
        ids = theirs.encode(text)
        assert ours.encode(text, parse_special=True) == ids, text[:80]
    for text in ("The quick brown fox", "Der schnelle", "12345 things."):
        ids = theirs.encode(text)
        assert ours.decode(ids, skip_special=True) == theirs.decode(ids, skip_special_tokens=True) == text
        assert ours.decode([*ids, *ours.encode_part(" fox")], skip_special=True) == text + " fox"
    assert ours.kind(3) == "unknown"
    assert ours.eos_id in ours.end_ids


def test_a_vocabulary_that_is_no_list_of_pairs(saved: Path) -> None:
    content = json.loads((saved / "tokenizer.json").read_text())
    content["model"]["vocab"][5] = "a"
    (saved / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match="pieces with scores"):
        load_tokenizer(saved, {})
