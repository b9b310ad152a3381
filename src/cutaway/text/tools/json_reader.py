"""Reads JSON one character at a time, so that the end of a value is known with its last character."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BLANK = " \t\n\r"
_WORDS = ("true", "false", "null")
_HEX = frozenset("0123456789abcdefABCDEF")
DEPTH = 256


class NotJsonError(ValueError):
    """The character is not allowed at this place."""


class JsonScanner:
    """Follows one object or array. `feed` takes the next character and raises NotJsonError if it is not allowed.

    depth: arrays and objects that are open. done: the value is complete. key: the key of the object at depth 1 whose
    value is being read, or was read last. at_value: the last character began the value of `key`. value_done: a value at
    depth 1 is complete before the last character, or with it (`inclusive`).
    """

    def __init__(self) -> None:
        self.key = ""
        self.at_value = False
        self.value_done = False
        self.inclusive = False
        self._open: list[str] = []
        self._expect = "value"  # value, value_or_end, key_or_end, key, colon, next; string, escape, hex; word
        self._text = ""  # of the string, number or word that is being read
        self._is_key = False
        self._hex_left = 0

    @property
    def depth(self) -> int:
        return len(self._open)

    @property
    def done(self) -> bool:
        return self._expect == "next" and not self._open

    def feed(self, character: str) -> None:
        self.at_value = self.value_done = self.inclusive = False
        if self._expect in ("string", "escape", "hex"):
            self._in_string(character)
        elif self._expect == "word":
            self._in_word(character)
        elif character not in _BLANK:
            self._between(character)

    def _between(self, character: str) -> None:
        expect = self._expect
        if expect == "next":
            self._after_value(character)
        elif expect == "colon":
            self._need(character == ":")
            self._expect = "value"
        elif expect in ("key", "key_or_end"):
            if character == "}" and expect == "key_or_end":
                return self._close(character)
            self._need(character == '"')
            self._expect, self._text, self._is_key = "string", "", True
        elif character == "]" and expect == "value_or_end":
            self._close(character)
        else:
            self._begin_value(character)
        return None

    def _begin_value(self, character: str) -> None:
        self.at_value = self._at_call()
        if character in "{[":
            self._need(len(self._open) < DEPTH)
            self._open.append(character)
            self._expect = "key_or_end" if character == "{" else "value_or_end"
        elif character == '"':
            self._expect, self._text, self._is_key = "string", "", False
        else:
            self._need(bool(self._open) and (character in "-0123456789" or character in "tfn"))
            self._expect, self._text = "word", character

    def _after_value(self, character: str) -> None:
        self._need(bool(self._open))
        if character == ",":
            self._expect = "key" if self._open[-1] == "{" else "value"
        else:
            self._close(character)

    def _close(self, character: str) -> None:
        self._need(character == ("}" if self._open[-1] == "{" else "]"))
        self._open.pop()
        self._end_value(inclusive=True)

    def _end_value(self, *, inclusive: bool) -> None:
        self._expect = "next"
        self.value_done, self.inclusive = self._at_call(), inclusive

    def _at_call(self) -> bool:
        return self._open == ["{"]

    def _in_string(self, character: str) -> None:
        self._text += character
        if self._expect == "escape":
            self._need(character in '"\\/bfnrtu')
            self._expect, self._hex_left = ("hex", 4) if character == "u" else ("string", 0)
        elif self._expect == "hex":
            self._need(character in _HEX)
            self._hex_left -= 1
            if not self._hex_left:
                self._expect = "string"
        elif character == "\\":
            self._expect = "escape"
        elif character == '"':
            self._end_string()
        else:
            self._need(character >= " ")

    def _end_string(self) -> None:
        if not self._is_key:
            return self._end_value(inclusive=True)
        if self._at_call():
            self.key = self._text[:-1]
        self._expect = "colon"
        return None

    def _in_word(self, character: str) -> None:
        if character not in _BLANK and character not in ",]}":
            self._text += character
            if self._text[0] in "tfn":
                self._need(any(word.startswith(self._text) for word in _WORDS))
            else:
                self._need(character in "0123456789+-.eE")
            return
        self._need(self._text in _WORDS or _NUMBER.fullmatch(self._text) is not None)
        self._end_value(inclusive=False)
        if character not in _BLANK:
            done = self.value_done
            self._after_value(character)
            self.value_done, self.inclusive = done or self.value_done, self.inclusive and not done

    def _need(self, right: bool) -> None:
        if not right:
            raise NotJsonError
