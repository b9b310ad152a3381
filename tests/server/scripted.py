"""A server whose model says what a test wants: its logits at a position prefer the script's token there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cutaway.ops.protocol import Step
from cutaway.ops.rows import HostRows
from cutaway.text import ChatTemplate
from cutaway.text.chat.reasoning import ReasoningFormat
from server.serving import HELLO, Running


class Scripted:
    """A server whose model writes a scripted text."""

    def __init__(self, server: Running, opens: bool = False, template: str | None = None) -> None:
        """opens: the template opens the reasoning, so that the answer begins inside it."""
        self.server = server
        self.opens = opens
        served = server.service.roster.models["smol"]
        assert served.engine is not None
        served.reasoning = ReasoningFormat()
        engine = served.engine
        source = template or "hello" + ("<think>\n" if opens else "")
        engine.template = ChatTemplate(source, engine.tokenizer)
        self.engine = engine
        self._encode = engine.tokenizer.encode
        self.asked(HELLO)
        self.script: list[int] = []
        self._end = min(engine.tokenizer.end_ids)
        self._vocab = engine.spec.vocab
        server.core("smol")._step_function = self._step

    def asked(self, messages: list[dict[str, Any]], **options: Any) -> None:
        """The next request has these messages; options: of the template."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "hello" shows no messages
            self.prompt = len(self.engine.token_ids(messages, **options))

    def says(self, text: str) -> None:
        text = text.removeprefix("<think>\n") if self.opens else text
        self.script = [*self._encode(text, add_special=False), self._end]

    def _step(self, step: Step) -> HostRows:
        logits = np.zeros((len(step.rows), self._vocab), np.float32)
        for row, position in zip(logits, step.positions[step.rows], strict=True):
            place = min(int(position) + 1 - self.prompt, len(self.script) - 1)
            row[self.script[place]] = 30.0
        return HostRows(logits)
