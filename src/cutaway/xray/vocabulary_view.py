"""A vocabulary by script, and the ids of one vocabulary read with another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cutaway.text import Tokenizer
from cutaway.xray.scripts import script_of


@dataclass(frozen=True, slots=True)
class ScriptShare:
    """tokens: of this script; share: of the vocabulary, 0 to 1. longest: the longest of them, by characters."""

    script: str
    tokens: int
    share: float
    longest: str

    def json(self) -> dict[str, Any]:
        return asdict(self)


def script_shares(tokenizer: Tokenizer) -> list[ScriptShare]:
    """The most frequent script first. Beside scripts there are: "no letters" (digits, spaces, punctuation, signs),
    "several" (letters of more than one script), "other" (letters of a script that is not known here), "part of a
    character" (bytes that are no UTF-8 alone), and, by their kind, "special", "user", "byte", "unused", "unknown"."""
    counts: Counter[str] = Counter()
    longest: dict[str, str] = {}
    size = tokenizer.vocab_size
    for id in range(size):
        name, text = _script(tokenizer, id)
        counts[name] += 1
        if len(text) > len(longest.get(name, "")):
            longest[name] = text
    return [ScriptShare(name, n, n / size, longest.get(name, "")) for name, n in counts.most_common()]


def _script(tokenizer: Tokenizer, id: int) -> tuple[str, str]:
    kind = tokenizer.kind(id)
    if kind != "normal":
        return "special" if kind == "control" else kind, tokenizer.piece(id)
    try:
        text = tokenizer.token_bytes(id).decode()
    except UnicodeDecodeError:
        return "part of a character", ""
    letters = {script_of(c) for c in text if c.isalpha()}
    if not letters:
        return "no letters", text
    if len(letters) > 1:
        return "several", text
    return letters.pop() or "other", text


@dataclass(frozen=True, slots=True)
class Reread:
    """An id with its piece in its own vocabulary and in another one; there: None where that has no such id."""

    id: int
    here: str
    there: str | None


def reread(ids: Sequence[int], own: Tokenizer, other: Tokenizer) -> list[Reread]:
    """What ids mean in another vocabulary: nothing but a coincidence makes them mean the same."""
    return [Reread(id, own.piece(id), other.piece(id) if id < other.vocab_size else None) for id in ids]
