"""Readers of the bodies of calls, one character at a time: JSON, or a name before JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Protocol

from cutaway.text.tools.events import Arguments, CallEnded, CallStarted, ToolEvent
from cutaway.text.tools.json_reader import JsonScanner, NotJsonError

LONGEST_HEAD = 256
_HEAD = re.compile(r"\s*([^\s\[\]{}\"]+)\s*(?:\[CALL_ID\]\s*([\w-]+)\s*)?(?:\[ARGS\])?\s*")
_ARGUMENTS = ("arguments", "parameters")
_BESIDE = ("id", "type")  # further keys that are allowed in JSON without a marker


class NotACallError(Exception):
    """The text is not a call, for the given reason."""


class Calls:
    """The calls of one answer, and their events. Raises NotACallError for a call that is not allowed."""

    def __init__(
        self,
        emit: Callable[[ToolEvent], None],
        names: Collection[str] | None,
        parallel: bool,
        new_id: Callable[[], str],
    ) -> None:
        self.count = 0
        self.open = False
        self.unmarked = False  # no marker declares the text to be a call
        self._emit = emit
        self._names = names
        self._parallel = parallel
        self._new_id = new_id
        self._ids: set[str] = set()

    def check(self, name: Any) -> None:
        if not isinstance(name, str) or not name:
            raise NotACallError(f"its name is {name!r}")
        if self._names is not None and name not in self._names:
            raise NotACallError(f"there is no tool {name!r}")

    def check_more(self) -> None:
        if self.count and not self._parallel:
            raise NotACallError("only one call is allowed (parallel_tool_calls is false)")

    def start(self, name: str) -> None:
        while (id := self._new_id()) in self._ids:
            pass
        self._ids.add(id)
        self._emit(CallStarted(self.count, id, name))
        self.count, self.open = self.count + 1, True

    def arguments(self, text: str) -> None:
        self._emit(Arguments(self.count - 1, text))

    def end(self) -> None:
        self._emit(CallEnded(self.count - 1))
        self.open = False


class Reader(Protocol):
    """`feed` takes the next character and returns whether the body ends with it; it raises NotACallError.

    cut: the text was cut off here; a call whose name and arguments have begun is started with the part that there is.
    """

    def feed(self, character: str) -> bool: ...
    def cut(self) -> None: ...


class CallReader:
    """One {"name": ..., "arguments": {...}}, from its brace on."""

    def __init__(self, calls: Calls, *, eager: bool) -> None:
        calls.check_more()
        self._calls = calls
        self._eager = eager
        self._scanner = JsonScanner()
        self._text = ""
        self._from: dict[str, int] = {}  # where the values of name and arguments begin and end
        self._upto: dict[str, int] = {}
        self._told = 0  # the arguments up to here were sent; 0: none

    def feed(self, character: str) -> bool:
        scanner = self._scanner
        try:
            scanner.feed(character)
        except NotJsonError:
            raise NotACallError(f"its JSON is broken at {character!r}") from None
        self._text += character
        if scanner.value_done:
            self._end_value(self._place(scanner.key), len(self._text) - (not scanner.inclusive))
        if scanner.at_value:
            self._begin_value(self._place(scanner.key))
        if self._eager and self._ready():
            self._tell()
        if scanner.done:
            self._finish()
        return scanner.done

    @staticmethod
    def _place(key: str) -> str:
        return "arguments" if key in _ARGUMENTS else key if key == "name" else ""

    def _begin_value(self, place: str) -> None:
        if not place and self._calls.unmarked and self._scanner.key not in _BESIDE:
            raise NotACallError(f"it has {self._scanner.key!r}")
        if place in self._from:
            raise NotACallError(f"its {place} appear twice" if place == "arguments" else f"its {place} appears twice")
        if place:
            self._from[place] = len(self._text) - 1

    def _end_value(self, place: str, end: int) -> None:
        if place:
            self._upto[place] = end
        if place == "name":
            self._calls.check(self._value("name"))

    def _value(self, place: str) -> Any:
        return json.loads(self._text[self._from[place] : self._upto[place]])

    def _ready(self) -> bool:
        """The name is known and the arguments are an object."""
        return "name" in self._upto and "arguments" in self._from and self._text[self._from["arguments"]] == "{"

    def cut(self) -> None:
        if self._ready():
            self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._calls.start(self._value("name"))
            self._told = self._from["arguments"]
        end = self._upto.get("arguments", len(self._text))
        if end > self._told:
            self._calls.arguments(self._text[self._told : end])
            self._told = end

    def _finish(self) -> None:
        if "name" not in self._upto:
            raise NotACallError("it has no name")
        if self._told or self._ready():
            self._tell()
        else:
            arguments = self._written_arguments()
            self._calls.start(self._value("name"))
            self._calls.arguments(arguments)
        self._calls.end()

    def _written_arguments(self) -> str:
        """Arguments that are not an object: none, null, or an object written as a JSON string."""
        value = self._value("arguments") if "arguments" in self._upto else None
        if value is None and not self._calls.unmarked:
            return "{}"
        if isinstance(value, str):
            try:
                if isinstance(json.loads(value), dict):
                    return value
            except (ValueError, RecursionError):
                pass
        raise NotACallError("its arguments are not an object")


class JsonCalls:
    """One call, or a list of them."""

    def __init__(self, calls: Calls, *, eager: bool) -> None:
        self._calls = calls
        self._eager = eager
        self._call: CallReader | None = None
        self._listed = False
        self._expect = "first"  # first, call_or_end, call, next

    def feed(self, character: str) -> bool:
        if self._call is not None:
            if self._call.feed(character):
                self._call, self._expect = None, "next"
                return not self._listed
            return False
        if character in " \t\r\n":
            return False
        if character == "[" and self._expect == "first":
            self._listed, self._expect = True, "call_or_end"
        elif character == "]" and self._expect in ("call_or_end", "next"):
            if self._expect == "call_or_end":
                raise NotACallError("the list is empty")
            return True
        elif character == "," and self._expect == "next":
            self._expect = "call"
        elif character == "{" and self._expect != "next":
            self._call = CallReader(self._calls, eager=self._eager)
            self._call.feed(character)
        else:
            raise NotACallError(f"a call cannot begin with {character!r}")
        return False

    def cut(self) -> None:
        if self._call is not None:
            self._call.cut()


class NamedCall:
    """`name[ARGS]{...}`; or, if it begins like one, a list as JSON."""

    def __init__(self, calls: Calls, *, eager: bool) -> None:
        self._calls = calls
        self._eager = eager
        self._head = ""
        self._scanner: JsonScanner | None = None
        self._list: JsonCalls | None = None
        self._text = ""

    def feed(self, character: str) -> bool:
        if self._list is not None:
            return self._list.feed(character)
        if self._scanner is not None:
            return self._in_arguments(character)
        if not self._head.strip() and character in "[{":
            self._list = JsonCalls(self._calls, eager=self._eager)
            return self._list.feed(character)
        if character != "{":
            self._head += character
            if len(self._head) > LONGEST_HEAD or "}" in self._head or '"' in self._head:
                raise NotACallError("no name and arguments follow")
            return False
        match = _HEAD.fullmatch(self._head)
        if match is None:
            raise NotACallError("there is no name before the arguments")
        self._calls.check_more()
        self._calls.check(match[1])
        self._head, self._scanner = match[1], JsonScanner()
        if self._eager:
            self._calls.start(self._head)
        return self._in_arguments(character)

    def cut(self) -> None:
        if self._list is not None:
            self._list.cut()
        elif self._scanner is not None and not self._eager:
            self._calls.start(self._head)
            self._calls.arguments(self._text)

    def _in_arguments(self, character: str) -> bool:
        assert self._scanner is not None
        try:
            self._scanner.feed(character)
        except NotJsonError:
            raise NotACallError(f"its JSON is broken at {character!r}") from None
        if self._eager:
            self._calls.arguments(character)
        else:
            self._text += character
        if self._scanner.done:
            if not self._eager:
                self._calls.start(self._head)
                self._calls.arguments(self._text)
            self._calls.end()
        return self._scanner.done
