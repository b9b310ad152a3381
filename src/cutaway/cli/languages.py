"""Detects a prompt in a language that the model does not know, and names a model of the catalogue that knows it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutaway.assemble import Engine

SCRIPTS = {
    "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "CJK": "zh", "CYRILLIC": "ru", "ARABIC": "ar", "HEBREW": "he",
    "DEVANAGARI": "hi", "BENGALI": "bn", "TAMIL": "ta", "THAI": "th", "GREEK": "el", "GEORGIAN": "ka", "ARMENIAN": "hy",
}  # fmt: skip
"""The first word of a character's Unicode name, and the most common language in that script."""
NAMES = {
    "ja": "Japanese", "ko": "Korean", "zh": "Chinese", "ru": "Russian", "ar": "Arabic", "he": "Hebrew", "hi": "Hindi",
    "bn": "Bengali", "ta": "Tamil", "th": "Thai", "el": "Greek", "ka": "Georgian", "hy": "Armenian", "en": "English",
}  # fmt: skip
SHARE = 0.3  # of the letters; a quoted word does not decide the language of a prompt


def known_languages(engine: Engine) -> tuple[str, tuple[str, ...]] | None:
    """The model's name and its languages, or None if the catalogue does not list them."""
    from cutaway.registry import entry_named

    entry = None if engine.manifest is None else entry_named(engine.manifest.name)
    return (entry.name, entry.languages) if entry is not None and entry.languages else None


def written_in(text: str) -> str | None:
    """The language of the script of at least SHARE of the letters, None for the Latin script. A text with kana is
    Japanese, whatever else it contains."""
    import unicodedata

    letters = [c for c in text if c.isalpha()]
    found = Counter(SCRIPTS.get(unicodedata.name(c, "").partition(" ")[0].partition("-")[0], "") for c in letters)
    if found["ja"]:
        found["ja"] += found.pop("zh", 0)
    language, count = max(((name, n) for name, n in found.items() if name), key=lambda one: one[1], default=("", 0))
    return language if language and count >= SHARE * len(letters) else None


def foreign(text: str, name: str, languages: tuple[str, ...]) -> str | None:
    """A warning if the model `name` knows no language of the prompt's script, otherwise None."""
    from cutaway.registry import smallest_that_knows

    language = written_in(text)
    if language is None or language in languages:
        return None
    knows = " and ".join(NAMES.get(one, one) for one in languages[:3]) + (" and others" if languages[3:] else "")
    line = f"cutaway: warning: {name} knows {knows}; its answer in {NAMES[language]} will be poor"
    better = smallest_that_knows(language)
    return f"{line} (try: --model {better.name})" if better is not None else line
