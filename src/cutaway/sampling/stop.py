"""When a run ends, and what text may be shown before it is known.

Stops are defined on the text as it grows by one character at a time, so that the cut of the text into tokens does not
matter. A stop takes effect at the first length L at which, looking at text[:L] alone and as if nothing followed,

- one of the stop strings ends at L, or
- one of the patterns matches (`regex.search`; look-ahead and `$` see the end of text[:L] as the end).

Where several do at the same L, the one that begins first counts; strings before patterns, then as they were given.
The text ends where the match begins (`include_stop_str`: where it ends). Text that may still become a match is held
back: the longest end of the text that begins a stop string, and from the first place at which `regex` sees a partial
match (so a pattern that begins with `.*` holds everything). Text that is let go cannot become part of a later match.
Held text is sent when the run ends for another reason.

Order of reasons at one token: end token, stop token, stop string or pattern, length, context, time,
repetition (see repetition.py). Neither stops nor
end tokens count until `min_tokens` tokens are out: a stop string must end after their text, and a pattern's match that
takes effect within it is passed over, so that the next one begins after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from cutaway.sampling.params import SamplingParams
from cutaway.sampling.patterns import Pattern
from cutaway.sampling.repetition import Loop, LoopDetector, loop_policy

StopKind = Literal[
    "end_token",
    "stop_token",
    "stop_string",
    "stop_regex",
    "repetition",
    "length",
    "time",
    "context",
    "cancelled",
    "error",
]


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why an answer ended. matched: the token id, the matched text, or None. at: index in the output of the token at
    which it ended."""

    kind: StopKind
    matched: str | int | None
    at: int


class TextSource(Protocol):
    """The detokenizer interface that stops need."""

    def push(self, id: int) -> str: ...

    def flush(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Found:
    """A match in the text: text[start:end]."""

    kind: Literal["stop_string", "stop_regex"]
    start: int
    end: int


class StopChecker:
    """Converts tokens to text that can be shown, and ends the answer. One per choice.

    end_ids: the end tokens of the model and the template. room: tokens left in the context; None: unlimited. clock:
    seconds; the time limit counts from `started` (default: now).
    """

    def __init__(
        self,
        params: SamplingParams,
        end_ids: frozenset[int],
        detokenizer: TextSource,
        *,
        room: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        started: float | None = None,
    ) -> None:
        self._params = params
        self._ends = frozenset() if params.ignore_eos else end_ids
        self._stop_tokens = frozenset(int(token) for token in params.stop_token_ids)
        self._detokenizer = detokenizer
        self._room = room
        self._clock = clock
        self._started = clock() if started is None else started
        self._scan = Scan(params.stop_strings, params.stop_patterns, include=params.include_stop_str)
        self._loops = LoopDetector()
        self._count = 0
        self._ended = False

    @property
    def loop(self) -> Loop | None:
        """The last loop of the tokens, whether or not it ended the answer."""
        return self._loops.loop

    def push(self, token: int) -> tuple[str, StopReason | None]:
        """Add the next token. Returns the text that can be shown now, and the reason if the answer ends here.

        With a reason the text is complete: nothing is held back any more, and `finish` returns "".
        """
        assert not self._ended, "a run that has ended takes no more tokens"
        in_loop = self._loops.push(int(token))
        at, self._count = self._count, self._count + 1
        due = at >= self._params.min_tokens
        if due and (token in self._ends or token in self._stop_tokens):
            kind: StopKind = "end_token" if token in self._ends else "stop_token"
            return self.finish(), StopReason(kind, int(token), at)
        shown, found = self._scan.push(self._detokenizer.push(token), search=due)
        if found is not None:
            self._ended = True
            return shown, StopReason(found.kind, self._scan.text[found.start : found.end], at)
        if (reason := self._limit(at, in_loop)) is not None:
            return shown + self.finish(), reason
        return shown, None

    def finish(self) -> str:
        """End the answer for another reason (cancelled, an error). Returns the text that was held back. May be called
        twice."""
        if self._ended:
            return ""
        self._ended = True
        shown, found = self._scan.push(self._detokenizer.flush(), search=self._count > self._params.min_tokens)
        return shown if found is not None else shown + self._scan.release()

    def _limit(self, at: int, in_loop: bool) -> StopReason | None:
        params = self._params
        if params.max_tokens is not None and self._count >= params.max_tokens:
            return StopReason("length", None, at)
        if self._room is not None and self._count >= self._room:
            return StopReason("context", None, at)
        if params.time_limit is not None and self._clock() - self._started >= params.time_limit:
            return StopReason("time", None, at)
        if in_loop and loop_policy(params) == "stop":
            return StopReason("repetition", None, at)
        return None


class Scan:
    """Searches a growing text for stops. text: all of it so far, if there are stops. include: show the match."""

    def __init__(self, strings: tuple[str, ...], patterns: tuple[str, ...], *, include: bool) -> None:
        self.text = ""
        self._strings = strings
        self._patterns = tuple(Pattern(source) for source in patterns)
        self._from = [0] * len(self._patterns)  # no match of the pattern can begin before this
        self._include = include
        self._shown = 0

    def push(self, new: str, *, search: bool = True) -> tuple[str, Found | None]:
        """Add `new`. Returns the text that can be shown, and the stop if there is one (then no more text will be
        shown)."""
        if not self._strings and not self._patterns:
            return new, None  # no stops, so nothing is held back
        start, self.text = len(self.text), self.text + new
        if self._patterns:
            found = self._grow(start, search=search)
        else:
            found = self._string_after(start) if search else None
        if found is not None:
            return self._show(found.end if self._include else found.start), found
        return self._show(min(self._string_hold(), *self._from, len(self.text))), None

    def release(self) -> str:
        """The text that was held back."""
        return self._show(len(self.text))

    def _show(self, upto: int) -> str:
        shown = self.text[self._shown : upto]
        self._shown = max(self._shown, upto)
        return shown

    def _string_after(self, start: int) -> Found | None:
        """The stop string that ends first after `start`; of several that end there, the one that begins first."""
        best: Found | None = None
        for string in self._strings:
            begin = self.text.find(string, max(0, start + 1 - len(string)))
            if begin >= 0:
                found = Found("stop_string", begin, begin + len(string))
                if best is None or (found.end, found.start) < (best.end, best.start):
                    best = found
        return best

    def _grow(self, start: int, *, search: bool) -> Found | None:
        """Add one character at a time: strings and patterns are checked at each length."""
        for end in range(start + 1, len(self.text) + 1):
            if search and (found := self._at(end)) is not None:
                return found
            for i, pattern in enumerate(self._patterns):
                if not search and (passed := pattern.match_in(self.text, self._from[i], end)) is not None:
                    self._from[i] = passed[1]
                self._from[i] = pattern.hold_from(self.text, self._from[i], end)
        return None

    def _at(self, end: int) -> Found | None:
        """The stop that takes effect at text[:end]."""
        hits = [
            Found("stop_string", end - len(string), end)
            for string in self._strings
            if self.text.endswith(string, 0, end)
        ]
        for pattern, begin in zip(self._patterns, self._from, strict=True):
            if (span := pattern.match_in(self.text, begin, end)) is not None:
                hits.append(Found("stop_regex", *span))
        return min(hits, key=lambda found: found.start, default=None)

    def _string_hold(self) -> int:
        """The start of the longest end of the text that begins a stop string."""
        hold = len(self.text)
        for string in self._strings:
            begin = max(0, len(self.text) + 1 - len(string))
            while (begin := self.text.find(string[0], begin, hold)) >= 0:
                if string.startswith(self.text[begin:]):
                    hold = begin
                    break
                begin += 1
        return hold
