"""Merges in order, on the real tokenizers and on one that can be followed by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from warnings import catch_warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import UnsupportedError
from cutaway.formats import open_model
from cutaway.text import TextLossWarning, Tokenizer, load_tokenizer
from cutaway.xray.merges import merge_steps
from cutaway.xray.vocabulary_view import reread, script_shares

pytestmark = pytest.mark.models
TEXTS = ["unbelievable tokenization", "你好，世界 naïve 🙂 1234", "  spaces\n\n\tand tabs", "it's", "ﾊﾟ ﬁ é"]


def tokenizer_of(path: Path) -> Tokenizer:
    with open_model(path) as opened:
        return load_tokenizer(opened.path, opened.metadata)


@pytest.fixture(scope="module")
def tokenizers(smollm2_path: Path, qwen_path: Path, gemma_path: Path) -> dict[str, Tokenizer]:
    return {path.stem: tokenizer_of(path) for path in (smollm2_path, qwen_path, gemma_path)}


@pytest.mark.parametrize("text", TEXTS)
def test_the_merges_end_in_the_tokens(text: str, tokenizers: dict[str, Tokenizer]) -> None:
    for name, tokenizer in tokenizers.items():
        words = merge_steps(tokenizer, text)
        assert [id for word in words for id in word.ids] == tokenizer.encode(text, add_special=False), name
        for word in words:
            parts = word.start
            for step in word.steps:
                assert parts[step.at : step.at + 2] == (step.left, step.right)
                parts = (*parts[: step.at], step.left + step.right, *parts[step.at + 2 :])
                assert step.parts == parts
            assert len(word.ids) == len(parts)


def test_each_merge_is_the_first_of_the_list_that_was_possible(smollm2_path: Path) -> None:
    tokenizer = tokenizer_of(smollm2_path)
    merges = {tuple(pair): rank for rank, pair in enumerate(tokenizer.encoder.model()["merges"])}
    (word,) = merge_steps(tokenizer, "unbelievable")
    assert len(word.steps) > 5 and not word.whole
    parts = word.start
    for step in word.steps:
        possible = [merges[pair] for pair in pairwise(parts) if pair in merges]
        assert step.rank == min(possible)
        parts = step.parts
    assert not [pair for pair in pairwise(parts) if pair in merges]


def test_any_text(smollm2_path: Path) -> None:
    tokenizer = tokenizer_of(smollm2_path)

    @settings(max_examples=30)
    @given(st.text(max_size=30))
    def check(text: str) -> None:
        ids = [id for word in merge_steps(tokenizer, text) for id in word.ids]
        with catch_warnings(action="ignore", category=TextLossWarning):  # bytes that this vocabulary lacks
            assert ids == tokenizer.encode(text, add_special=False)

    check()


def test_a_tokenizer_without_merges_says_so(monkeypatch: pytest.MonkeyPatch, tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = next(iter(tokenizers.values()))
    monkeypatch.setattr(tokenizer.encoder, "model", lambda: {"type": "Unigram", "vocab": []})
    with pytest.raises(UnsupportedError, match="Unigram"):
        merge_steps(tokenizer, "a")


def test_every_token_of_a_vocabulary_is_of_one_script(tokenizers: dict[str, Tokenizer]) -> None:
    found = {name: script_shares(tokenizer) for name, tokenizer in tokenizers.items()}
    for name, shares in found.items():
        assert sum(s.tokens for s in shares) == tokenizers[name].vocab_size
        assert sum(s.share for s in shares) == pytest.approx(1)
    counts = [{s.script: s.tokens for s in shares} for shares in found.values()]
    small, qwen, _ = counts
    assert qwen["Chinese"] > 20_000 > small.get("Chinese", 0)
    assert max(small, key=lambda script: small[script]) == "Latin"


def test_ids_mean_something_else_elsewhere(tokenizers: dict[str, Tokenizer]) -> None:
    small, qwen, _ = tokenizers.values()
    ids = qwen.encode("你好，世界", add_special=False)
    rows = reread(ids, qwen, small)
    assert [row.id for row in rows] == ids and [row.here for row in rows] == [qwen.piece(id) for id in ids]
    assert [row.there for row in rows] == [small.piece(id) if id < small.vocab_size else None for id in ids]
    assert None in [row.there for row in rows] and not any(row.here == row.there for row in rows)
