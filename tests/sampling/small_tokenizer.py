"""A tokenizer small enough to build in a moment: every byte, some longer tokens, markers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from cutaway.text import Tokenizer
from cutaway.text.tokenizer.from_gguf import tokenizer_from_gguf
from cutaway.text.tokenizer.vocabulary import CONTROL, NORMAL, UNUSED, USER, byte_alphabet

MERGES = [
    '{ "',
    '" :',
    '" }',
    "a b",
    "ab c",
    "1 2",
    "\u0120 \u0120",
    "\u010a \u0120",
    "t r",
    "u e",
    "tr ue",
    '" ,',
    '" "',
]
CONTROLS = ["<|im_end|>", "<|endoftext|>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>"]
USERS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]


@cache
def small_tokenizer() -> Tokenizer:
    merged = [merge.replace(" ", "") for merge in MERGES]
    tokens = [*byte_alphabet(), *merged, *CONTROLS, *USERS, "[PAD0]"]
    types = [NORMAL] * (256 + len(merged)) + [CONTROL] * len(CONTROLS) + [USER] * len(USERS) + [UNUSED]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
    }
    return tokenizer_from_gguf(Path("small.gguf"), metadata)


def marker(text: str) -> int:
    """The id of a marker."""
    return small_tokenizer().vocabulary.ids[text]
