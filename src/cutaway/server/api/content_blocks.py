"""An answer as a list of blocks (reasoning, text, tool calls), for the responses API and Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cutaway.server.generation.output_parser import Told
from cutaway.text.tools.events import Arguments, CallStarted

Kind = Literal["reasoning", "text", "call"]
Move = Literal["start", "delta", "stop"]


@dataclass(slots=True)
class Block:
    """A block. text: the content; of a call, its arguments as JSON. id, name: of a call."""

    index: int
    kind: Kind
    id: str = ""
    name: str = ""
    text: str = ""


class Blocks:
    """Blocks, built from pieces. At most one is open. The same pieces give the same blocks, streamed or not."""

    def __init__(self, told: Iterable[Told] = ()) -> None:
        self.blocks: list[Block] = []
        self._open = False
        for piece in told:
            list(self.add(piece))

    def add(self, told: Told) -> Iterator[tuple[Move, Block, str]]:
        """The moves of a piece, each with its block and the text that a delta adds."""
        if told.reasoning:
            yield from self._text("reasoning", told.reasoning)
        if told.content:
            yield from self._text("text", told.content)
        for event in told.calls:
            if isinstance(event, CallStarted):
                yield from self._start("call", event.id, event.name)
            elif isinstance(event, Arguments):
                yield self._delta(event.text)
            else:
                yield from self.close()

    @property
    def open(self) -> Block | None:
        """The open block, if any."""
        return self.blocks[-1] if self._open else None

    def close(self) -> Iterator[tuple[Move, Block, str]]:
        """Close the open block."""
        if self._open:
            self._open = False
            yield "stop", self.blocks[-1], ""

    def _text(self, kind: Kind, text: str) -> Iterator[tuple[Move, Block, str]]:
        if not self._open or self.blocks[-1].kind != kind:
            yield from self._start(kind)
        yield self._delta(text)

    def _start(self, kind: Kind, id: str = "", name: str = "") -> Iterator[tuple[Move, Block, str]]:
        yield from self.close()
        self.blocks.append(Block(len(self.blocks), kind, id, name))
        self._open = True
        yield "start", self.blocks[-1], ""

    def _delta(self, text: str) -> tuple[Move, Block, str]:
        self.blocks[-1].text += text
        return "delta", self.blocks[-1], text
