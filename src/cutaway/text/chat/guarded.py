"""Protects text from outside on its way through a template, so that none of it can become a control token.

Wherever such text looks like a marker (``<|im_end|>``), a noncharacter is inserted after the look-alike's first
character. Markers that the template writes stay intact and can be distinguished; then the noncharacter is removed
again. A template that inspects the text (``'</think>' in content``, ``content.split(...)``, ``content | length``) must
see the original text, so text with noncharacters is a `GuardedText`, whose methods behave as if they were not there.
Other text stays a plain `str`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, SupportsIndex

from cutaway.errors import TemplateError
from cutaway.text.tokenizer.special_tokens import Markers

# Unicode's noncharacters in the basic plane: never assigned, free for internal use.
_NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))


class Guard:
    """Breaks look-alikes in all values of one rendering that come from outside.

    Args:
        markers: texts that only the template may write.
        values: everything from outside; decides which noncharacter is free.

    Raises:
        TemplateError: every noncharacter occurs in the text.
    """

    def __init__(self, markers: Markers, *values: Any) -> None:
        used: set[str] = set()
        for text in _strings(values):
            used.update(filter(text.__contains__, _NONCHARACTERS) if not text.isascii() else ())
        free = [character for character in _NONCHARACTERS if character not in used]
        if len(free) < 2:
            raise TemplateError(
                "the messages hold every one of Unicode's noncharacters U+FDD0 to U+FDEF; none is left to use"
            )
        self.character, self.sentinel = free[:2]
        self._markers = markers
        self._text = guarded_type(self.character)

    def protect(self, value: Any) -> Any:
        """`value` with every string in it broken, including dictionary keys; a copy made of plain JSON types."""
        if isinstance(value, str):
            return self._break(value)
        if isinstance(value, Mapping):
            return {self.protect(key): self.protect(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.protect(item) for item in value]
        return value

    def clean(self, text: str) -> str:
        """The text without the noncharacter: a plain `str`."""
        return str.replace(text, self.character, "")

    def join(self, parts: Iterable[str]) -> str:
        """The pieces that the template wrote, joined; guarded if any piece is."""
        return self._text._wrap("".join(parts))

    def _break(self, text: str) -> str:
        places = self._markers.lookalikes(text)
        if not places:
            return str(text)
        cuts = [0, *(place + 1 for place in places), len(text)]
        parts = [text[start:end] for start, end in pairwise(cuts)]
        return self._text(self.character.join(parts))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


class GuardedText(str):
    """A `str` with noncharacters that behaves as if they were not there, and keeps them in derived texts."""

    __slots__ = ()
    _character = ""

    @classmethod
    def _wrap(cls, text: str) -> str:
        return cls(text) if cls._character in text else text

    @property
    def _sent(self) -> str:
        """The original text."""
        return str.replace(self, self._character, "")

    def __str__(self) -> str:
        return self

    def __len__(self) -> int:
        return len(self._sent)

    def __contains__(self, part: object, /) -> bool:
        return isinstance(part, str) and _clean(part, self._character) in self._sent

    def __eq__(self, other: object) -> bool:
        return self._sent == (_clean(other, self._character) if isinstance(other, str) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._sent)

    def __add__(self, other: str, /) -> str:
        return self._wrap(str.__add__(self, other))

    def __radd__(self, other: str, /) -> str:
        return self._wrap(str.__add__(other, self))

    def __mul__(self, count: SupportsIndex, /) -> str:
        return self._wrap(str.__mul__(self, count))

    __rmul__ = __mul__

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: SupportsIndex | slice, /) -> str:
        """Characters by their place in the original text; each keeps the noncharacter after it."""
        units = [
            match[0]
            for match in re.finditer(rf"{self._character}*[^{self._character}]{self._character}*", str.__str__(self))
        ]
        chosen = units[place]
        return self._wrap("".join(chosen))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        if sep is None:
            return self._each(str.split(self, None, maxsplit))
        limit = maxsplit.__index__()
        found = self._found(sep)
        return self._cut(found if limit < 0 else found[:limit])

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        if sep is None:
            return self._each(str.rsplit(self, None, maxsplit))
        limit = maxsplit.__index__()
        found = self._found(sep)
        return self._cut(found if limit < 0 else found[len(found) - min(limit, len(found)) :])

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        found = self._found(sep)
        return self._around(found[0]) if found else (self, "", "")

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        found = self._found(sep)
        return self._around(found[-1]) if found else ("", "", self)

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        if not old:
            return self
        return self._wrap(self._pattern(old).sub(lambda _: new, str.__str__(self), _as_limit(count)))

    def join(self, parts: Iterable[str], /) -> str:
        return self._wrap(str.join(self, parts))

    def strip(self, characters: str | None = None, /) -> str:
        return self._between(len(self._sent.lstrip(characters)), len(self._sent.rstrip(characters)))

    def lstrip(self, characters: str | None = None, /) -> str:
        return self._between(len(self._sent.lstrip(characters)), len(self))

    def rstrip(self, characters: str | None = None, /) -> str:
        return self._between(len(self), len(self._sent.rstrip(characters)))

    def _between(self, from_left: int, from_right: int) -> str:
        """The text from which stripping removes all but these many characters on the left and on the right."""
        return self[len(self) - from_left : from_right]

    def removeprefix(self, prefix: str, /) -> str:
        return self[len(_clean(prefix, self._character)) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> str:
        length = len(_clean(suffix, self._character))
        return self[: len(self) - length] if length and self.endswith(suffix) else self

    def _pattern(self, text: str) -> re.Pattern[str]:
        """A pattern that matches `text` with or without noncharacters."""
        inside = f"{self._character}*"
        return re.compile(inside.join(map(re.escape, _clean(text, self._character))) + inside)

    def _found(self, text: str) -> list[tuple[int, int]]:
        if not text:
            raise ValueError("empty separator")
        return [match.span() for match in self._pattern(text).finditer(str.__str__(self))]

    def _cut(self, spans: list[tuple[int, int]]) -> list[str]:
        """The text between the spans."""
        whole = str.__str__(self)
        starts = [0, *(end for _, end in spans)]
        ends = [*(start for start, _ in spans), len(whole)]
        return self._each(whole[start:end] for start, end in zip(starts, ends, strict=True))

    def _around(self, span: tuple[int, int]) -> tuple[str, str, str]:
        whole, (start, end) = str.__str__(self), span
        before, inside, after = self._each((whole[:start], whole[start:end], whole[end:]))
        return before, inside, after

    def _each(self, parts: Iterable[str]) -> list[str]:
        return [self._wrap(part) for part in parts]


def _clean(text: str, character: str) -> str:
    return str.replace(text, character, "")


def _as_limit(count: SupportsIndex) -> int:
    """`str`'s limit (negative: none, 0: nothing) as `re`'s (0: none, negative: nothing)."""
    limit = count.__index__()
    return 0 if limit < 0 else limit or -1


def _on_clean(name: str) -> Callable[..., Any]:
    """A method that inspects the text: applied to the original text."""

    def method(self: GuardedText, *arguments: Any) -> Any:
        return getattr(self._sent, name)(*(_clean_argument(argument, self._character) for argument in arguments))

    return method


def _clean_argument(argument: Any, character: str) -> Any:
    if isinstance(argument, str):
        return _clean(argument, character)
    if isinstance(argument, tuple):
        return tuple(_clean_argument(item, character) for item in argument)
    return argument


def _kept(name: str) -> Callable[..., Any]:
    """A method that changes the text and keeps the noncharacters."""

    def method(self: GuardedText, *arguments: Any) -> Any:
        changed = getattr(str, name)(self, *arguments)
        return self._each(changed) if isinstance(changed, list) else self._wrap(changed)

    return method


_QUESTIONS = (
    "startswith endswith find rfind index rindex count isalnum isalpha isascii isdecimal isdigit isidentifier islower "
    "isnumeric isprintable isspace istitle isupper __lt__ __le__ __gt__ __ge__"
)
_CHANGES = "upper lower title capitalize casefold swapcase splitlines expandtabs zfill"
for _name in _QUESTIONS.split():
    setattr(GuardedText, _name, _on_clean(_name))
for _name in _CHANGES.split():
    setattr(GuardedText, _name, _kept(_name))


@cache
def guarded_type(character: str) -> type[GuardedText]:
    """`GuardedText` for one noncharacter."""
    return type("GuardedText", (GuardedText,), {"__slots__": (), "_character": character})
