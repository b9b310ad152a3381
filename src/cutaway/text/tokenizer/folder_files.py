"""Reads the token settings in the small JSON files of a model's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutaway.errors import TokenizerError

ROLES = ("bos", "eos", "unk", "pad")


def read_json(file: Path) -> tuple[str, dict[str, Any]]:
    """A file's text, and the JSON object in it. Raises TokenizerError."""
    try:
        text = file.read_text("utf-8")
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{file} must contain a JSON object")
    return text, content


def read_if_there(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no file. Raises TokenizerError."""
    return read_json(file)[1] if file.is_file() else {}


def named_ends(folder: Path) -> list[int]:
    """The end tokens of the first file that has any, as in transformers."""
    for name in ("generation_config.json", "config.json"):
        content = read_if_there(folder / name)
        inner = content.get("text_config")
        found = content.get("eos_token_id", inner.get("eos_token_id") if isinstance(inner, dict) else None)
        ids = [id for id in (found if isinstance(found, list) else [found]) if isinstance(id, int)]
        if ids:
            return ids
    return []


def role_text(config: Mapping[str, Any], role: str) -> str | None:
    """The text of the token with a role ("bos", "eos", "unk", "pad"), given as text or as an object."""
    token = config.get(f"{role}_token")
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None
