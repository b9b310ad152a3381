"""Tool calls read out of a growing text."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cutaway.text.tool_events import ToolEvent, ToolMessage, gathered


class ToolParser:
    """One answer's parser: `push(text)` and `finish()` give events (tool_events.py), cut as you like.

    format: a name that `detect_tool_format` gives, one of TOOL_FORMATS. names: the tools that may be called; a call of
    another one stays content, with a warning; None: any. parallel: more than one call is taken; else further ones stay
    content, with a warning. eager: arguments are told as they come, for text that a grammar constrains, which can only
    fail by being cut off (then the call has what there was, with a warning); else a call is told when it is whole, so
    that one that cannot be read stays content, as it is, with a warning. new_id: makes the ids of calls.
    """

    def __init__(
        self, format: str, *, names: Collection[str] | None = None, parallel: bool = True, eager: bool = True,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        """Raises ParameterError for an unknown format."""

    def push(self, text: str) -> list[ToolEvent]:
        """The next piece of the answer."""
        raise NotImplementedError

    def finish(self) -> list[ToolEvent]:
        """The answer is over: what was held back."""
        raise NotImplementedError


def parse_tools(text: str, format: str, *, names: Collection[str] | None = None, parallel: bool = True,
                eager: bool = True, new_id: Callable[[], str] | None = None) -> ToolMessage:
    """The whole of a whole answer: what a `ToolParser` says, joined."""
    parser = ToolParser(format, names=names, parallel=parallel, eager=eager, new_id=new_id)
    return gathered([*parser.push(text), *parser.finish()])
