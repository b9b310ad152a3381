"""Small vocabularies, written as a GGUF file would hold them, and the three real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.formats import open_model
from cutaway.text import ChatTemplate, Tokenizer, load_template, load_tokenizer
from cutaway.text.tokenizer.vocabulary import BYTE, CONTROL, NORMAL, USER, byte_alphabet

Metadata = dict[str, Any]

_CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_USERS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "    "]
_MERGES = ["h e", "l l", "he ll", "hell o", "\u0120 hello", "\u0120 w", "1 2", "\u0120 \u0120", "i n", "a a", "aa aa"]


def byte_level(**changes: Any) -> Metadata:
    """A byte-level vocabulary: the 256 bytes, some merges, three control and five user-defined tokens."""
    words = ["".join(merge.split(" ")) for merge in _MERGES]
    tokens = [*_CONTROLS, *byte_alphabet(), *words, *_USERS, "[PAD0]"]
    types = [CONTROL] * len(_CONTROLS) + [NORMAL] * (256 + len(words)) + [USER] * len(_USERS) + [5]
    keys: Metadata = {
        "model": "gpt2",
        "pre": "qwen2",
        "tokens": tokens,
        "token_type": np.array(types, np.int32),
        "merges": list(_MERGES),
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    keys.update(changes)
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items() if value is not None}


def sentencepiece(**changes: Any) -> Metadata:
    """A SentencePiece vocabulary with byte fallback; scores fall with the id."""
    words = [
        "\u2581hello",
        "\u2581he",
        "llo",
        "\u2581h",
        "ll",
        "lo",
        "he",
        "\u2581\u2581",
        "\u2581wor",
        "or",
        "\u2581w",
    ]
    texts = ["\u2581", *"abcdehlorw<>|_ims\n", "\u65e5", "ab", "bc", "abc"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words, *texts, "<|im_end|>", "\n\n"]
    types = [2, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (len(words) + len(texts)), CONTROL, USER]
    keys: Metadata = {
        "model": "llama",
        "pre": "default",
        "tokens": tokens,
        "token_type": np.array(types, np.int32),
        "scores": -np.arange(len(tokens), dtype=np.float32),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    keys.update(changes)
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items() if value is not None}


@pytest.fixture
def byte_level_metadata() -> Callable[..., Metadata]:
    return byte_level


@pytest.fixture
def sentencepiece_metadata() -> Callable[..., Metadata]:
    return sentencepiece


@pytest.fixture
def load(tmp_path: Path) -> Callable[[Metadata], Tokenizer]:
    return lambda metadata: load_tokenizer(tmp_path / "model.gguf", metadata)


@pytest.fixture
def tokenizer(load: Callable[[Metadata], Tokenizer]) -> Tokenizer:
    return load(byte_level())


@pytest.fixture
def template(tokenizer: Tokenizer) -> Callable[..., ChatTemplate]:
    return lambda source, **named: ChatTemplate(source, tokenizer, named=named)


Loaded = tuple[Tokenizer, ChatTemplate | None]


def _load(path: Path) -> Loaded:
    with open_model(path) as file:
        tokenizer = load_tokenizer(path, file.metadata)
        template = load_template(path, file.metadata, tokenizer)
        tokenizer.prepare()
    return tokenizer, template


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> Loaded:
    return _load(smollm2_path)


@pytest.fixture(scope="session")
def qwen(qwen_path: Path) -> Loaded:
    return _load(qwen_path)


@pytest.fixture(scope="session")
def gemma(gemma_path: Path) -> Loaded:
    return _load(gemma_path)
