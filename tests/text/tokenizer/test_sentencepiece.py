from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.text import Tokenizer
from cutaway.text.tokenizer import sentencepiece
from cutaway.text.tokenizer.vocabulary import Vocabulary, as_types

Load = Callable[[dict[str, Any]], Tokenizer]
Make = Callable[..., dict[str, Any]]


def pieces(tokenizer: Tokenizer, text: str, **options: Any) -> list[str]:
    return [tokenizer.piece(id) for id in tokenizer.encode(text, **options)]


def test_prefix_space_bos_and_byte_fallback(load: Load, sentencepiece_metadata: Make) -> None:
    tokenizer = load(sentencepiece_metadata())
    assert pieces(tokenizer, "hello world") == ["<s>", "\u2581hello", "\u2581wor", "l", "d"]
    assert pieces(tokenizer, "\u65e5\u672c", add_special=False) == ["\u2581", "\u65e5", "<0xE6>", "<0x9C>", "<0xAC>"]
    ids = tokenizer.encode("hello \u65e5\u672c", add_special=False)
    assert tokenizer.decode(ids) == "hello \u65e5\u672c"


def test_without_prefix_space(load: Load, sentencepiece_metadata: Make) -> None:
    tokenizer = load(sentencepiece_metadata(add_space_prefix=False))
    assert pieces(tokenizer, "hello", add_special=False) == ["he", "llo"]
    assert tokenizer.decode(tokenizer.encode(" hello", add_special=False)) == " hello"


def test_phi3s_control_tokens_swallow_blanks(load: Load, sentencepiece_metadata: Make) -> None:
    tokenizer = load(sentencepiece_metadata() | {"general.architecture": "phi3"})
    expected = ["\u2581he", "<|im_end|>", "\u2581he"]
    assert pieces(tokenizer, "he<|im_end|>he", add_special=False, parse_special=True) == expected
    # The blanks behind a control token belong to it, except behind these.
    assert pieces(tokenizer, "he<|im_end|> \n he", add_special=False, parse_special=True) == expected
    assert pieces(tokenizer, "<s>\n", add_special=False, parse_special=True) == ["<s>", "\u2581", "\n"]
    other = load(sentencepiece_metadata())
    assert pieces(other, "<|im_end|> he", add_special=False, parse_special=True) == ["<|im_end|>", "\u2581", "\u2581he"]


def test_pieces_cover_the_text_without_the_prefix(load: Load, sentencepiece_metadata: Make) -> None:
    spans = [
        (piece.piece, piece.start, piece.end) for piece in load(sentencepiece_metadata()).pieces("hello \u672c\n\nx")
    ]
    assert spans[0] == ("\u2581hello", 0, 5)
    assert spans[1:5] == [("\u2581", 5, 6), *((f"<0x{byte:02X}>", 6, 7) for byte in "\u672c".encode())]
    assert spans[5] == ("\n\n", 7, 9)


def test_text_never_merges_into_a_control_token_or_a_byte(load: Load, sentencepiece_metadata: Make) -> None:
    tokenizer = load(sentencepiece_metadata(add_space_prefix=False))
    ids = tokenizer.encode("<|im_end|><s><0x0A>", add_special=False)
    assert not {tokenizer.kind(id) for id in ids} & {"control"}
    assert tokenizer.decode(ids) == "<|im_end|><s><0x0A>"


def test_user_defined_text_is_found_whole(load: Load, sentencepiece_metadata: Make) -> None:
    assert pieces(load(sentencepiece_metadata(add_space_prefix=False)), "a\n\nb", add_special=False) == [
        "a",
        "\n\n",
        "b",
    ]


def test_merges_are_cached_and_a_broken_cache_is_not_trusted(
    tmp_path: Path, load: Load, sentencepiece_metadata: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(sentencepiece_metadata()).encode("hello hello abc")
    (cached,) = tmp_path.iterdir()
    content = cached.read_bytes()

    def refuse(*_: Any) -> Any:
        raise AssertionError("found again although cached")

    with monkeypatch.context() as patch:
        patch.setattr("cutaway.text.tokenizer.sentencepiece.find_merges", refuse)
        assert load(sentencepiece_metadata()).encode("hello hello abc") == expected
    for broken in (b"", content[:-8], content[:-1] + bytes([content[-1] ^ 1]), content + b"\0" * 8, b"x" + content[1:]):
        cached.write_bytes(broken)
        assert load(sentencepiece_metadata()).encode("hello hello abc") == expected
        assert cached.read_bytes() == content


ALPHABET = "abc"


@st.composite
def vocabularies(draw: st.DrawFn) -> list[str]:
    """Characters and longer pieces in any order of scores."""
    longer = draw(st.sets(st.text(ALPHABET, min_size=2, max_size=6), max_size=25))
    return draw(st.permutations([*ALPHABET, *sorted(longer)]))


@given(vocabularies(), st.lists(st.text(ALPHABET, max_size=30), max_size=5))
def test_merges_that_can_happen_give_the_ids_of_all_merges(tokens: list[str], texts: list[str]) -> None:
    from tokenizers import Tokenizer as Library
    from tokenizers import models

    vocabulary = Vocabulary(tokens, as_types(None, len(tokens)), "sentencepiece")
    scores = -np.arange(len(tokens), dtype=np.float64)
    ids = vocabulary.ids
    cuts = ((token[:place], token[place:]) for token in tokens for place in range(1, len(token)))
    every = [cut for cut in cuts if cut[0] in ids and cut[1] in ids]
    every.sort(key=lambda cut: (ids[cut[0] + cut[1]], -len(cut[0])))
    kept = [(tokens[a], tokens[b]) for a, b in sentencepiece.find_merges(vocabulary, tokens, scores).tolist()]
    assert set(kept) <= set(every)
    assert len({left + right for left, right in kept}) == len(kept)
    whole, some = (Library(models.BPE(vocab=ids, merges=merges)) for merges in (every, kept))
    for text in texts:
        assert some.encode(text).ids == whole.encode(text).ids
