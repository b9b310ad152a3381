"""Which of seven languages in the Latin script a text is in, by its commonest small words; and where it slides into
another. A text that has too few of them is in no language that is known here: nothing is guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.xray.scripts import without_code

SMALL = {
    "English": "the of and to is was that it for with as are on this be by an which you your have has not they from at",
    "French": "le les des et est une dans que pour qui sur pas avec sont ce cette au aux du il elle nous vous ou",
    "German": "der die und das ist den dem ein eine nicht mit von zu auf für des sich auch wird im sind oder als es",
    "Spanish": "el los las y en que es una por con para se su del como más pero este sus al lo fue un",
    "Italian": "il di che è e un una per con non sono del della le si nel dei gli alla anche come più lo",
    "Portuguese": "o os que e do da em um uma para com não é se na no dos das por mais como foi ao as",
    "Dutch": "de het een en van is dat op te in zijn voor met niet aan er ook als maar bij naar door",
}  # fmt: skip
"""Words that make up a third of most texts, and are rare in the other six."""
NAMES = {
    "English": ("english", "anglais", "englisch", "inglés", "inglese", "inglês", "engels"),
    "French": ("french", "français", "französisch", "francés", "francese", "francês", "frans"),
    "German": ("german", "allemand", "deutsch", "alemán", "tedesco", "alemão", "duits"),
    "Spanish": ("spanish", "espagnol", "spanisch", "español", "spagnolo", "espanhol", "spaans", "castellano"),
    "Italian": ("italian", "italien", "italiano"),
    "Portuguese": ("portug",),
    "Dutch": ("dutch", "néerlandais", "niederländisch", "holand", "olandese", "nederlands"),
}  # fmt: skip
"""Words by which a prompt names a language, in lower case."""
WINDOW = 24
"""Words that are looked at together."""
SHARE, TIMES = 0.2, 2.0
"""The share of small words that a language must have, and how many times more than the next one."""
FEWEST = 6  # words of a prompt from which its language is looked for
_WORDS = {language: frozenset(words.split()) for language, words in SMALL.items()}
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class LanguageSlide:
    """From the character `at` on the text is in `language`; before it was in `before`."""

    at: int
    language: str
    before: str


def language_of(words: Sequence[str]) -> str | None:
    """Of words in lower case; None: unknown."""
    found = Counter({language: sum(word in small for word in words) for language, small in _WORDS.items()})
    (first, most), (_, next_most) = found.most_common(2)
    return first if words and most >= SHARE * len(words) and most >= TIMES * next_most else None


def language_slide(answer: str, prompt: str) -> LanguageSlide | None:
    """The first WINDOW words in a language that the prompt is not in and does not name, after text in another. prompt:
    the last message of the user. Code does not count."""
    words = [(match.start(), match.group().lower()) for match in _WORD.finditer(without_code(answer))]
    asked = prompt.lower()
    expected = {language for language, names in NAMES.items() if any(name in asked for name in names)}
    spoken = _WORD.findall(asked)
    if len(spoken) >= FEWEST and (language := language_of(spoken)) is not None:
        expected.add(language)
    before: str | None = None
    for start in range(0, len(words) - WINDOW + 1, WINDOW // 4):
        language = language_of([word for _, word in words[start : start + WINDOW]])
        if language is None:
            continue
        if before is not None and language != before and language not in expected:
            return LanguageSlide(words[start][0], language, before)
        before = language
    return None
