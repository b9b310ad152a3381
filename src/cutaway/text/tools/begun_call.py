"""Finds a call that a message has begun and not ended, for an answer that continues it."""

from __future__ import annotations

from collections.abc import Collection

from cutaway.text.tools.formats import tool_format
from cutaway.text.tools.parser import ToolParser


def begun_call(text: str, format: str, names: Collection[str]) -> str:
    """The end of a text that has begun a call of one of `names` and not ended it, from the call's beginning on, or "".
    A lenient parser that gets this text first reads the rest of the call (see `ToolParser`)."""
    starts = {text.rfind(marker.removesuffix("[")) for marker in tool_format(format).without_markers().opens}
    starts.add(len(text) - len(text.lstrip()))
    for start in sorted(starts):
        parser = ToolParser(format, names=names, eager=False, lenient=True)
        if start >= 0:
            parser.push(text[start:])
            if parser.inside:
                return text[start:]
    return ""
