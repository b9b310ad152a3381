"""The ids of few words, looked up in the file, must be those of the library's model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.errors import TokenizerError
from cutaway.formats import open_model
from cutaway.text import Tokenizer, load_tokenizer
from cutaway.text.tokenizer import encoder
from cutaway.text.tokenizer.encoder import Place
from text.packed import Packed

Make = Callable[..., dict[str, Any]]
Load = Callable[[dict[str, Any]], Tokenizer]

TEXTS = [
    "The capital of France is", "hello  world\n\n  12345 don't", "中文：你好，世界", "नमस्ते 🙂 naïve cafe\u0301",
    "aaaaaaaaa" * 9, "def f(x):\n\treturn x+1\n", "", " ", "\u00a0\u2028\u0000", "<|im_end|>", "x" * 300,
    "ÀÉÎ\u0300 ＦＵＬＬ ﬁ",
]  # fmt: skip


def is_built(tokenizer: Tokenizer) -> bool:
    return tokenizer._encoder._built is not None


def plain(make: Make, **changes: Any) -> dict[str, Any]:
    """A vocabulary without user-defined text: its four blanks have another name."""
    tokens = ["[BLANKS]" if token == "    " else token for token in make()["tokenizer.ggml.tokens"]]
    return make(tokens=tokens, **changes)


def packed(metadata: dict[str, Any]) -> dict[str, Any]:
    names = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}
    return {key: Packed(value) if key in names else value for key, value in metadata.items()}


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "qwen"])
def test_real_models(name: str, request: pytest.FixtureRequest) -> None:
    built: Tokenizer = request.getfixturevalue(name)[0]
    with open_model(request.getfixturevalue(f"{name}_path")) as file:
        quick = load_tokenizer(file.path, file.metadata)

        @given(text=st.text(max_size=60) | st.text("ab cdeAB\n'.,1 中文é", max_size=80) | st.sampled_from(TEXTS))
        @settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
        def same(text: str) -> None:
            quick._encoder._left = 1 << 14
            assert quick._encoder.ids(text, Place.START) == built._encoder.ids(text, Place.START)

        assert quick.encode("Name three colours.") == built.encode("Name three colours.")
        assert not is_built(quick)
        assert quick.decode(quick.encode("中文 naïve")) == "中文 naïve"
        assert not is_built(quick)
        same()


@pytest.mark.parametrize("pre", ["qwen2", "llama-bpe", "smollm"])
@pytest.mark.parametrize("text", [*TEXTS, "hello hello helloo 112 12 inin"])
def test_small_vocabulary(load: Load, byte_level_metadata: Make, pre: str, text: str) -> None:
    metadata = plain(byte_level_metadata, pre=pre)
    quick, built = load(packed(metadata)), load(metadata)
    assert quick.encode(text) == built.encode(text)
    assert is_built(quick) is (len(text) > 256)


def test_a_long_text_is_the_librarys_and_so_is_what_follows(
    load: Load, byte_level_metadata: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "QUICK", 10)
    tokenizer = load(packed(plain(byte_level_metadata)))
    tokenizer.encode("hello he")
    assert not is_built(tokenizer)
    tokenizer.encode("hello")
    assert is_built(tokenizer)
    assert tokenizer._encoder._quick is None


@pytest.mark.parametrize(
    ("merges", "reason"), [(["h e", "he l"], "no token 'hel'"), (["h e", "ll", "o  o"], None), (["he"], "one space")]
)
def test_merges_that_make_no_sense_are_refused(
    load: Load, byte_level_metadata: Make, merges: list[str], reason: str | None
) -> None:
    tokenizer = load(packed(plain(byte_level_metadata, merges=merges)))
    if reason is None:  # two wrongs: the number of spaces is right; the merges lead nowhere
        assert len(tokenizer.encode("hell")) == 3
        return
    with pytest.raises(TokenizerError, match=reason):
        tokenizer.encode("hello")


def test_texts_that_are_tokens_whole_are_left_to_the_library(load: Load, byte_level_metadata: Make) -> None:
    metadata = byte_level_metadata()  # four blanks are a user-defined token
    quick = load(packed(metadata))
    assert quick.encode("a    b") == load(metadata).encode("a    b")
    assert is_built(quick)


@pytest.mark.models
def test_loading_holds_no_list_of_the_tokens(qwen_path: Path) -> None:
    with open_model(qwen_path) as file:
        tokenizer = load_tokenizer(file.path, file.metadata)
        tokenizer.encode("hello")
        assert not isinstance(tokenizer.vocabulary.tokens, list)
        tokenizer.prepare()
        assert isinstance(tokenizer.vocabulary.tokens, list)
