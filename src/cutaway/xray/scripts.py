"""In which script a text is written, and where it slides into another. Only letters count; nothing is guessed."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

SCRIPTS = {
    "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean", "CJK": "Chinese", "CYRILLIC": "Cyrillic",
    "ARABIC": "Arabic", "HEBREW": "Hebrew", "DEVANAGARI": "Devanagari", "BENGALI": "Bengali", "TAMIL": "Tamil",
    "THAI": "Thai", "GREEK": "Greek", "GEORGIAN": "Georgian", "ARMENIAN": "Armenian", "LATIN": "Latin",
}  # fmt: skip
"""The first word of a letter's name in Unicode, and what its script is called here. Kana and the ideographs beside
them are one."""
NAMES = {
    "Japanese": ("japanese", "日本語", "日文", "日语"), "Korean": ("korean", "한국어", "韩文", "韩语"),
    "Chinese": ("chinese", "mandarin", "中文", "汉语", "漢語", "中国語", "중국어"),
    "Cyrillic": ("russian", "ukrainian", "bulgarian", "serbian", "русск", "俄语", "俄文"),
    "Arabic": ("arabic", "persian", "urdu", "العربية", "阿拉伯"), "Hebrew": ("hebrew", "עברית", "希伯来"),
    "Devanagari": ("hindi", "sanskrit", "marathi", "nepali", "हिन्दी", "印地"), "Bengali": ("bengali", "bangla"),
    "Tamil": ("tamil",), "Thai": ("thai", "泰语"), "Greek": ("greek", "ελληνικά", "希腊"),
    "Georgian": ("georgian",), "Armenian": ("armenian",),
    "Latin": ("english", "french", "german", "spanish", "italian", "portuguese", "英文", "英语", "英語", "拉丁",
              "pinyin", "拼音", "romaji", "法语", "德语", "西班牙"),
}  # fmt: skip
"""Words by which a prompt names a script, in lower case."""
LETTERS = {"Chinese": 4, "Japanese": 4, "Korean": 4, "Latin": 60}
"""Letters in a row that are a slide; a quoted name or term is shorter. Latin words stand in texts of every script."""
OTHERS = 12
ASKED = {"Latin": 8}
"""Letters of a prompt from which on it is written in that script too; of others, one. Names of roles are shorter."""
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def without_code(text: str) -> str:
    """The text with blanks in the place of code."""
    return _CODE.sub(lambda code: " " * len(code.group()), text)


@dataclass(frozen=True, slots=True)
class Slide:
    """From the character `at` on the text is in `script`; before it was in `before`. letters: of the first run."""

    at: int
    script: str
    before: str
    letters: int


@lru_cache(4096)
def script_of(character: str) -> str | None:
    """Of a letter; None for anything else and for scripts that are not in the list."""
    if not character.isalpha():
        return None
    return SCRIPTS.get(unicodedata.name(character, "").partition(" ")[0].partition("-")[0])


def main_script(text: str) -> str | None:
    """The script of more than half of the letters; None if none has so many. Any kana make ideographs Japanese."""
    found = Counter(script for c in text if (script := script_of(c)) is not None)
    if found["Japanese"]:
        found["Japanese"] += found.pop("Chinese", 0)
    script, count = max(found.items(), key=lambda one: one[1], default=(None, 0))
    return script if count * 2 > sum(found.values()) else None


def script_slide(answer: str, prompt: str) -> Slide | None:
    """The first run of letters in a script that the prompt neither uses nor names, after text in another script.

    prompt: the last message of the user, without the system's text. Code does not count. Languages of the Latin script
    are distinguished in languages.py.
    """
    asked = prompt.lower()
    answer = without_code(answer)
    written = Counter(script for c in prompt if (script := script_of(c)) is not None)
    expected = {script for script, count in written.items() if count >= ASKED.get(script, 1)}
    expected |= {script for script, names in NAMES.items() if any(name in asked for name in names)}
    if "Japanese" in expected:
        expected.add("Chinese")
    before: Counter[str] = Counter()
    at, run, current = 0, 0, None
    for index, character in enumerate(answer):
        script = script_of(character)
        if script is None:
            continue
        if script != current:
            at, run, current = index, 0, script
        run += 1
        seen = max(before, key=lambda one: before[one], default=None)
        if run == LETTERS.get(script, OTHERS) and script not in expected and seen not in (None, script):
            return Slide(at, script, str(seen), _length(answer, at, script))
        if run >= LETTERS.get(script, OTHERS) or script in expected or seen is None:
            before[script] += 1
    return None


def _length(text: str, at: int, script: str) -> int:
    """Letters from `at` on up to the first of another script."""
    count = 0
    for character in text[at:]:
        found = script_of(character)
        if found not in (None, script):
            break
        count += found == script
    return count
