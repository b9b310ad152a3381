"""Markers of fill-in-the-middle: those that a GGUF file names, else those that the vocabulary has under a known name.

Source of the names: the models' own descriptions, and the lists of llama.cpp's vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

from cutaway.text.tokenizer.tokenizer import Tokenizer

_ROLES = ("pre", "suf", "mid")
_SPELLINGS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen, CodeGemma
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),  # Code Llama
    ("<PRE>", "<SUF>", "<MID>"),
    ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),  # GLM
    ("<|prefix|>", "<|suffix|>", "<|middle|>"),
)
_REPOSITORY = ("<|repo_name|>", "<|fim_repo|>", "<fim-repo>", "<reponame>", "<REPO>")
_FILE = ("<|file_sep|>", "<file_sep>", "<|file_separator|>")
_PAD = ("<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<PAD>")
_ENDS = ("<EOT>", "▁<EOT>")


class FillMarkers(NamedTuple):
    """Token ids. prefix, suffix, middle: before the text that stands before the gap, before that behind it, and before
    what is generated. repository, file: before the name of a repository and of a file; None: the model has none.
    ends: every id that ends a filling."""

    prefix: int
    suffix: int
    middle: int
    repository: int | None
    file: int | None
    ends: frozenset[int]


def fill_markers(tokenizer: Tokenizer) -> FillMarkers | None:
    """The markers of a model, None if it has no complete set."""
    named = tokenizer.special.fill
    find = tokenizer.vocabulary.find

    def first(role: str, names: tuple[str, ...]) -> int | None:
        known = (id for name in names if (id := find(name)) is not None)
        return named[role] if role in named else next(known, None)

    for spelling in _SPELLINGS:
        prefix, suffix, middle = (first(role, (name,)) for role, name in zip(_ROLES, spelling, strict=True))
        if prefix is not None and suffix is not None and middle is not None:
            break
    else:
        return None
    repository, file, pad = first("rep", _REPOSITORY), first("sep", _FILE), first("pad", _PAD)
    ends = {prefix, suffix, middle, repository, file, pad, *map(find, _ENDS)}
    return FillMarkers(prefix, suffix, middle, repository, file, frozenset(id for id in ends if id is not None))
