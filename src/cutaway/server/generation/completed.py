"""Whole answers, assembled from pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from cutaway.engine import TokenLogprob
from cutaway.sampling import StopReason
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.generation.logprobs import TextLogprobs
from cutaway.server.generation.output_parser import Told
from cutaway.text.tools.events import Arguments, CallStarted


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class Message:
    """One answer, complete or in progress."""

    content: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    text_logprobs: list[list[TokenLogprob]] = field(default_factory=list)  # of each entry of `told`
    texts: TextLogprobs = field(default_factory=TextLogprobs)
    stop: StopReason | None = None
    reason: str = ""

    def add(self, piece: Piece) -> None:
        shown = self.texts.add(piece.told, piece.logprob)
        if piece.told:
            self.told.append(piece.told)
            self.text_logprobs.append(shown)
        self.content += piece.told.content
        self.reasoning += piece.told.reasoning
        for event in piece.told.calls:
            if isinstance(event, CallStarted):
                self.calls.append(Call(event.id, event.name))
            elif isinstance(event, Arguments):
                self.calls[event.index].arguments += event.text
        if piece.token is not None:
            self.tokens.append(piece.token)
        if piece.logprob is not None:
            self.logprobs.append(piece.logprob)
        if piece.stop is not None:
            self.stop, self.reason = piece.stop, piece.reason or ""


async def gathered(run: Run) -> list[Message]:
    """All answers of a run."""
    messages = [Message() for _ in range(len(run.prompts) * run.params.n)]
    pieces: AsyncIterator[Piece] = run.pieces()
    async for piece in pieces:
        messages[piece.choice].add(piece)
    return messages
