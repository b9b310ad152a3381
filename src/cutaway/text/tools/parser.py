"""Parses tool calls in a growing text; the result does not depend on how the text is split.

White space between content and a call, and after the last call, belongs to the markup and is removed.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Collection

from cutaway.text.chat.reasoning import begun
from cutaway.text.tools.call_readers import LONGEST_HEAD, Calls, JsonCalls, NamedCall, NotACallError, Reader
from cutaway.text.tools.events import Arguments, Content, ParseWarning, ToolEvent, ToolMessage, gathered
from cutaway.text.tools.formats import UNMARKED, ToolFormat, tool_format
from cutaway.text.tools.python_reader import PythonCalls

_SOURCE = random.SystemRandom()
_PYTHON_CALL = re.compile(r"\s*\[\s*[^\W\d][\w.]*\(")
_LETTERS = string.ascii_letters + string.digits


def new_call_id(format: str) -> str:
    """A random id for a call, in the format that the model's template expects."""
    short = tool_format(format).short_ids
    letters = "".join(_SOURCE.choices(_LETTERS, k=9 if short else 24))
    return letters if short else f"call_{letters}"


class ToolParser:
    """The parser of one answer: `push(text)` and `finish()` return events (events.py).

    format: a name that `detect_tool_format` returns, one of TOOL_FORMATS. names: the tools that may be called; a call
    of another one stays content, with a warning; None: any. parallel: more than one call is allowed; otherwise further
    ones stay content, with a warning. eager: arguments are sent as they arrive, for text that a grammar constrains,
    which can only fail by being cut off (then the call has the part that there is, with a warning); otherwise a call is
    sent when it is complete, so that one that cannot be parsed stays content, with a warning. lenient: a call of one of
    `names` in JSON, at the beginning of the answer, in a ```json fence or between `<tools>` tags, counts without the
    format's marker, with a warning (small models write such calls, for example Qwen2.5-Coder 0.5B; no grammar has
    constrained them). Such a call must have arguments and no further keys, so that other JSON stays content. new_id:
    makes the ids of calls.
    """

    def __init__(
        self, format: str, *, names: Collection[str] | None = None, parallel: bool = True, eager: bool = True,
        lenient: bool = False, new_id: Callable[[], str] | None = None,
    ) -> None:
        """Raises ParameterError for an unknown format."""
        self._format: ToolFormat = tool_format(format)
        self._unmarked: tuple[str, ...] = ()
        if lenient and names and not self._format.bare:
            self._format, self._unmarked = self._format.without_markers(), ("", *UNMARKED)
        self._eager = eager
        self._events: list[ToolEvent] = []
        self._calls = Calls(self._emit, names, parallel, new_id or (lambda: new_call_id(format)))
        self._buffer = ""  # text that is not processed to the end
        self._blanks = ""  # content that is held back: markup if a call follows
        self._said = False  # there was content
        self._reader: Reader | None = None
        self._raw = ""  # text that the reader took and no call has sent
        self._marker = ""
        self._after = False  # a body has ended; its closing marker may follow

    @property
    def calls(self) -> int:
        """The number of calls that were sent so far."""
        return self._calls.count

    @property
    def inside(self) -> bool:
        """Whether the text so far ends inside a call."""
        return self._reader is not None

    def push(self, text: str) -> list[ToolEvent]:
        """Parse the next piece of the answer."""
        self._buffer += text
        while self._buffer and self._advance():
            pass
        return self._taken()

    def finish(self, *, cut: bool = False) -> list[ToolEvent]:
        """End of the answer: return what was held back. cut: it was ended (by a limit, for example) and did not end by
        itself. Then the beginning of a call is not content: it is a call if its name and arguments have begun, and
        otherwise it is removed, with a warning that contains it."""
        if self._reader is not None:
            if cut:
                self._cut()
            if cut and not self._calls.open and self._is_markup():
                self._leave_out(self._raw)
            else:
                self._fail("the answer ends inside it", "")
        self._finish_text(cut)
        return self._taken()

    def _finish_text(self, cut: bool) -> None:
        rest, self._buffer = self._buffer, ""
        if cut and rest and not self._after and (hold := begun(rest, self._format.opens)) < len(rest):
            rest, markup = rest[:hold], rest[hold:]
            self._content(rest)
            self._leave_out(markup)
        elif not (cut and self._after):  # the possible beginning of a closing marker is not content
            self._content(rest)
        if self._blanks and not self._calls.count:
            self._emit(Content(self._blanks))
        self._blanks = ""

    def _cut(self) -> None:
        assert self._reader is not None
        told = self._calls.count
        self._reader.cut()
        if self._calls.count > told:
            self._raw, self._blanks = "", ""
            self._warn_unmarked(told)

    def _is_markup(self) -> bool:
        """Whether the held text can only be the beginning of a call."""
        if self._marker or not self._raw.lstrip().startswith("["):
            return self._marker not in self._unmarked and self._marker not in self._format.plain
        return _PYTHON_CALL.match(self._raw) is not None

    def _warn_unmarked(self, call: int) -> None:
        if self._marker in self._unmarked:
            self._emit(ParseWarning(f"call {call} was written without the format's marker, and not constrained"))

    def _leave_out(self, markup: str) -> None:
        self._reader, self._raw = None, ""
        shown = markup if len(markup) <= 200 else markup[:200] + "..."
        self._emit(ParseWarning(f"the answer was cut where a tool call begins; left out: {shown!r}"))

    # --- states -----------------------------------------------------------------------------------------------------
    def _advance(self) -> bool:
        """Process the buffer as far as possible. Returns whether there may be more to process."""
        if self._reader is not None:
            return self._read()
        if self._after:
            return self._close()
        return self._look()

    def _look(self) -> bool:
        """In content: up to the next opening marker, or the possible beginning of one."""
        if self._format.bare and not self._said and not self._calls.count:
            start = self._buffer.lstrip()
            if not start:
                return False
            if start[0] == "{" or (start[0] == "[" and (self._format.python or self._unmarked)):
                blanks = self._buffer[: -len(start)]
                self._buffer = start
                return self._open("", blanks)
        found = [(at, marker) for marker in self._format.opens if (at := self._buffer.find(marker)) >= 0]
        if not found:
            hold = begun(self._buffer, self._format.opens)
            text, self._buffer = self._buffer[:hold], self._buffer[hold:]
            self._content(text)
            return False
        at, marker = min(found)
        text, self._buffer = self._buffer[:at], self._buffer[at + len(marker.removesuffix("[")) :]
        if marker.endswith("[") and not marker.endswith("]"):
            marker = marker.removesuffix("[")
        self._content(text)
        return self._open(marker, "")

    def _open(self, marker: str, blanks: str) -> bool:
        self._marker, self._raw = marker, blanks + marker
        self._calls.unmarked = marker in self._unmarked
        eager = self._eager and marker not in self._unmarked
        self._reader = _Opening(self._calls, self._format, marker, eager=eager)
        return True

    def _read(self) -> bool:
        """In a body: character by character."""
        assert self._reader is not None
        for place, character in enumerate(self._buffer, 1):
            self._raw += character
            told = self._calls.count
            try:
                done = self._reader.feed(character)
            except NotACallError as error:
                self._buffer = self._buffer[place:]
                self._fail(str(error), character if self._calls.open else self._raw)
                return True
            if self._calls.count > told:
                self._warn_unmarked(told)
            if self._calls.count > told or self._calls.open:
                self._raw, self._blanks = "", ""
            if done:
                self._buffer = self._buffer[place:]
                self._reader, self._after = None, True
                return True
        self._buffer = ""
        return False

    def _fail(self, why: str, untold: str) -> None:
        """The held text is not a call, or only the beginning of one."""
        self._reader = None
        if self._calls.open:
            self._emit(ParseWarning(f"call {self._calls.count - 1} is not whole: {why}"))
            self._calls.end()
        elif self._marker and self._marker not in self._format.plain:
            self._emit(ParseWarning(f"what looks like a tool call cannot be read as one: {why}"))
        self._content(untold if untold or self._calls.open else self._raw)
        self._raw = ""

    def _close(self) -> bool:
        """After a body: its closing marker, or the next call if calls may follow without one."""
        start = self._buffer.lstrip()
        if not start:
            return False
        for marker in self._format.closes:
            if start.startswith(marker):
                self._buffer, self._after = start[len(marker) :], False
                return True
            if marker.startswith(start):
                return False
        if self._format.bare and start[0] in ";,{":
            following = start.lstrip(";,").lstrip() if start[0] != "{" else start
            if not following:
                return False
            if following[0] == "{":
                skipped = self._buffer[: len(self._buffer) - len(following)]
                self._buffer, self._after = following, False
                return self._open("", skipped)
        self._after = False
        return True

    # --- events -----------------------------------------------------------------------------------------------------
    def _content(self, text: str) -> None:
        """Content, with white space at its end held back."""
        solid = text.rstrip()
        if solid:
            self._emit(Content(self._blanks + solid))
            self._said, self._blanks = True, ""
        self._blanks += text[len(solid) :]

    def _emit(self, event: ToolEvent) -> None:
        last = self._events[-1] if self._events else None
        if isinstance(event, Content) and isinstance(last, Content):
            self._events[-1] = Content(last.text + event.text)
        elif isinstance(event, Arguments) and isinstance(last, Arguments) and last.index == event.index:
            self._events[-1] = Arguments(event.index, last.text + event.text)
        else:
            self._events.append(event)

    def _taken(self) -> list[ToolEvent]:
        events, self._events = self._events, []
        return events


class _Opening:
    """Chooses the reader by the first character that is not white space."""

    def __init__(self, calls: Calls, format: ToolFormat, marker: str, *, eager: bool) -> None:
        self._calls = calls
        self._format = format
        self._marker = marker
        self._eager = eager
        self._reader: Reader | None = None
        self._seen = ""

    def feed(self, character: str) -> bool:
        if self._reader is not None:
            return self._reader.feed(character)
        self._seen += character
        if len(self._seen) > LONGEST_HEAD:
            raise NotACallError("only blanks follow")
        start = self._seen.strip()
        if not start:
            return False
        self._calls.check_more()
        if self._format.python and start == "[":
            return False  # a list of JSON calls or of Python calls
        self._reader = self._chosen(start)
        for seen in self._seen[:-1]:
            self._reader.feed(seen)
        return self._reader.feed(character)

    def cut(self) -> None:
        if self._reader is not None:
            self._reader.cut()

    def _chosen(self, start: str) -> Reader:
        if self._format.name.startswith("mistral") and not self._calls.unmarked:
            return NamedCall(self._calls, eager=self._eager)
        if self._format.python and not start.startswith("{") and not start.replace(" ", "").startswith("[{"):
            return PythonCalls(self._calls, fence=self._format.closes[0] if self._marker else "")
        return JsonCalls(self._calls, eager=self._eager)


def parse_tools(
    text: str, format: str, *, names: Collection[str] | None = None, parallel: bool = True, eager: bool = True,
    lenient: bool = False, new_id: Callable[[], str] | None = None,
) -> ToolMessage:  # fmt: skip
    """The complete result for a whole answer, as from a `ToolParser`."""
    parser = ToolParser(format, names=names, parallel=parallel, eager=eager, lenient=lenient, new_id=new_id)
    return gathered([*parser.push(text), *parser.finish()])
