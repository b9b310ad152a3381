"""SentencePiece's prefix space: put before what begins a text, never before or out of what continues one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.text import Segment, Tokenizer
from text.conftest import sentencepiece
from text.prefixed import KINDS, gguf_keys, library, saved

Load = Callable[[dict[str, Any]], Tokenizer]
TEXTS = [
    "The capital of France is", "hello", "", "a  b", "caf\u00e9 \u65e5", "The capital</s>hello<|im_end|>The",
    "<s>The capital", "<s> The", "The capital<|im_end|> of\n", "</s></s>is", "\n", "<|im_end|>",
]  # fmt: skip
TEXT = st.text('The capital Paris{}"\n\u00e9\u65e5 ', max_size=12) | st.text(max_size=6).filter(
    lambda t: "\u2581" not in t
)


@cache
def tokenizer(kind: str) -> Tokenizer:
    """Of a tokenizer.json, or of a GGUF file with or without add_space_prefix."""
    if not kind.startswith("gguf"):
        with TemporaryDirectory() as folder:
            made = saved(Path(folder), kind)
            made.prepare()
            return made
    from cutaway.text.tokenizer.from_gguf import tokenizer_from_gguf

    with TemporaryDirectory() as folder:
        made = tokenizer_from_gguf(Path(folder) / "m.gguf", sentencepiece(add_space_prefix=kind == "gguf"))
        made.prepare()
        return made


ALL = (*KINDS, "gguf", "gguf without")


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_text_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    ours = saved(tmp_path, kind)
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        ids = theirs.encode(text)
        assert ours.encode(text, parse_special=True) == (ids[1:] if text.startswith("<s>") else ids), text
        for skip in (True, False):
            assert ours.decode(ids, skip_special=skip) == theirs.decode(ids, skip_special_tokens=skip), text


def test_scores_of_a_gguf_file_give_the_ids_of_llama_2s_own_tokenizer(load: Load) -> None:
    ours, theirs = load(gguf_keys()), library("prepend")
    for text in [*TEXTS, " The", "  hello a", '{"a": "Paris"}']:
        assert (
            ours.encode(text, parse_special=True, add_special=False)
            == theirs.encode(text, add_special_tokens=False).ids
        )


def test_a_gguf_file_has_it_behind_each_control_token(load: Load) -> None:
    """As llama.cpp: where add_space_prefix is set, at the start and behind each token that is no text."""
    ours = load(sentencepiece())

    def pieces(*segments: Segment) -> list[str]:
        return [ours.piece(id) for id in ours.encode_segments(segments)]

    assert pieces(Segment("<s>hello", True)) == ["<s>", "\u2581hello"]
    assert pieces(Segment("<s>", True), Segment("hello", False), Segment("<|im_end|>he", True)) == [
        "<s>", "\u2581hello", "<|im_end|>", "\u2581he",
    ]  # fmt: skip
    assert pieces(Segment("he", True), Segment("llo", False)) == ["\u2581he", "llo"]
    assert [ours.piece(id) for id in ours.encode("he\n\nhe", add_special=False)] == ["\u2581he", "\n\n", "he"]
    plain = load(sentencepiece(add_space_prefix=False))
    assert [plain.piece(id) for id in plain.encode("<s>hello", parse_special=True)] == ["<s>", "he", "llo"]


@pytest.mark.parametrize("kind", ALL)
def test_where_each_token_came_from(kind: str) -> None:
    text = "hello the <|im_end|>hello \u65e5"
    found = tokenizer(kind).pieces(text, parse_special=True)
    assert [piece.id for piece in found] == tokenizer(kind).encode(text, parse_special=True, add_special=False)
    assert found[0].start == 0 and found[-1].end == len(text)
    marker = next(place for place, piece in enumerate(found) if piece.piece == "<|im_end|>")
    assert (found[marker].start, found[marker].end) == (10, 20)
    assert found[marker - 1].end == 10 and found[marker + 1].start == 20
    for before, after in pairwise(found):
        assert before.start <= after.start <= before.end


@pytest.mark.parametrize("kind", ALL)
@settings(deadline=None)
@given(first=TEXT, second=TEXT, third=TEXT)
def test_parts_give_the_whole(kind: str, first: str, second: str, third: str) -> None:
    """What is encoded as a part adds its own text and nothing else, wherever it is put."""
    ours = tokenizer(kind)
    head = ours.encode("x" + first, add_special=False)
    parts = [ours.encode_part(second), ours.encode_part(third)]
    assert ours.decode([*head, *parts[0], *parts[1]]) == "x" + first + second + third
    for part, text in zip(parts, (second, third), strict=True):
        assert b"".join(map(ours.token_bytes, part)) == text.encode()
    stream = ours.detokenizer(after=head)
    assert "".join([*map(stream.push, [*parts[0], *parts[1]]), stream.flush()]) == second + third


@pytest.mark.parametrize("kind", ["prepend", "gguf", "gguf without", "never"])
@settings(deadline=None)
@given(text=TEXT)
def test_a_whole_text_comes_back(kind: str, text: str) -> None:
    """Metaspace puts no prefix before a text that begins with a space, and so (as in transformers) loses that space."""
    ours = tokenizer(kind)
    ids = ours.encode(text)
    assert ours.decode(ids, skip_special=True) == text
    stream = ours.detokenizer(after=ids[:1] if ours.add_bos else [])
    assert "".join([*map(stream.push, ids[1:] if ours.add_bos else ids), stream.flush()]) == text


def test_only_behind_tokens_without_text_does_a_text_begin() -> None:
    ours = tokenizer("prepend")
    (word,) = ours.encode_part(" Paris")
    for after, text in (((), "Paris"), ((1,), "Paris"), (ours.encode("is"), " Paris"), (None, " Paris")):
        assert ours.detokenizer(after=after).push(word) == text


def test_the_space_that_byte_level_files_may_ask_for(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers

    from cutaway.text import load_tokenizer

    made = Library(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    made.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path, {})
    assert ours.encode("a") == made.encode("a").ids and len(ours.encode("a")) == 2
    assert ours.decode(ours.encode_part("a")) == "a"


def test_metaspace_of_older_files(tmp_path: Path) -> None:
    """A flag instead of a scheme."""
    import json

    from cutaway.text import load_tokenizer

    content = json.loads(library("always").to_str())
    for flag in (True, False):
        step = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": flag}
        step |= {} if flag else {"prepend_scheme": "never"}
        content |= {"pre_tokenizer": step, "decoder": step}
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        ours = load_tokenizer(tmp_path, {})
        assert [ours.piece(id) for id in ours.encode("hello")] == ["<s>", "\u2581hello" if flag else "hello"]
        assert ours.decode(ours.encode("hello"), skip_special=True) == "hello"
        assert ours.decode(ours.encode_part(" hello")) == ("hello" if flag else " hello")
