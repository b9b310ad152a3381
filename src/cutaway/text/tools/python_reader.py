"""Reads calls written in Python syntax, without executing anything."""

from __future__ import annotations

import ast
import json
import re
from typing import NoReturn

from cutaway.text.tools.call_readers import Calls, NotACallError

LONGEST_PYTHON = 1 << 16


class PythonCalls:
    """`[f(a=1), g(b="x")]`, or the same without the brackets up to the end of a fence; sent when it is complete."""

    def __init__(self, calls: Calls, *, fence: str) -> None:
        self._calls = calls
        self._fence = fence
        self._text = ""
        self._depth = 0
        self._quote = ""
        self._escaped = False

    def feed(self, character: str) -> bool:
        self._text += character
        if len(self._text) > LONGEST_PYTHON:
            raise NotACallError(f"it is longer than {LONGEST_PYTHON} characters")
        if self._quote:
            if character == self._quote and not self._escaped:
                self._quote = ""
            self._escaped = character == "\\" and not self._escaped
            return False
        if character in "'\"":
            self._quote = character
        self._depth += (character in "([{") - (character in ")]}")
        if self._fence and self._text.endswith(self._fence):
            return self._read(self._text.removesuffix(self._fence))
        if not self._fence and not self._depth:
            return self._read(self._text)
        return False

    def cut(self) -> None:
        """An incomplete call in Python syntax has no arguments that could be sent as JSON."""

    def _read(self, text: str) -> bool:
        made = python_calls(text)
        for name, arguments in made:
            self._calls.check(name)
            self._calls.check_more()
            self._calls.start(name)
            self._calls.arguments(arguments)
            self._calls.end()
        return True


def python_calls(text: str) -> list[tuple[str, str]]:
    """(name, arguments as JSON text) of calls in Python syntax with keywords and literals. Nothing is executed.

    Raises NotACallError.
    """
    try:
        whole = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _refuse()
    entries = whole.elts if isinstance(whole, ast.List | ast.Tuple) else [whole]
    return [_python_call(entry) for entry in entries] or _refuse()


def _python_call(node: ast.expr) -> tuple[str, str]:
    if not isinstance(node, ast.Call):
        _refuse()
    name = ast.unparse(node.func)
    if name == "print" and len(node.args) == 1 and not node.keywords:  # Gemma's notebooks print the result
        return _python_call(node.args[0])
    if node.args or not re.fullmatch(r"[\w.]+", name):
        _refuse()
    try:
        values = {_keyword(word): ast.literal_eval(word.value) for word in node.keywords}
        return name, json.dumps(values, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        _refuse()


def _keyword(word: ast.keyword) -> str:
    return word.arg if word.arg is not None else _refuse()


def _refuse() -> NoReturn:
    raise NotACallError("it is not a call in Python syntax")
