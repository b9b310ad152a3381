"""Loads the tokenizer of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutaway.text.tokenizer.fitting import fit
from cutaway.text.tokenizer.from_gguf import tokenizer_from_gguf
from cutaway.text.tokenizer.tokenizer import Tokenizer


def load_tokenizer(path: Path, metadata: Mapping[str, Any], *, rows: int | None = None) -> Tokenizer:
    """The tokenizer of the model at `path`: from GGUF metadata, or from the files beside it.

    rows: of the model's embedding, to which the vocabulary is fitted. The encoder is built with the first text, or by
    `Tokenizer.prepare`.
    """
    tokenizer = _loaded(path, metadata)
    if rows is not None:
        fit(tokenizer, rows)
    return tokenizer


def _loaded(path: Path, metadata: Mapping[str, Any]) -> Tokenizer:
    if metadata:
        return tokenizer_from_gguf(path, metadata)
    folder = path if path.is_dir() else path.parent
    if not (folder / "tokenizer.json").is_file() and (folder / "tokenizer.model").is_file():
        from cutaway.text.tokenizer.from_sentencepiece import tokenizer_from_model

        return tokenizer_from_model(folder)
    from cutaway.text.tokenizer.from_json import tokenizer_from_json  # a GGUF file does not need it

    return tokenizer_from_json(folder)
