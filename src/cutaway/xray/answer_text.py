"""The text of an answer and where in it each token ends."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from cutaway.text import Tokenizer
from cutaway.xray.known_answer import KnownAnswer


@dataclass(frozen=True, slots=True)
class AnswerText:
    """text: all tokens as text, control tokens by nothing; ends: characters of it that are complete after each token
    (a token that ends inside a character completes none)."""

    text: str
    ends: tuple[int, ...]

    @classmethod
    def of(cls, known: KnownAnswer, tokenizer: Tokenizer) -> AnswerText:
        before = known.prompt if known.params.constraint is None else None  # as the request's own
        detokenizer = tokenizer.detokenizer(shown=known.params.visible_tokens, after=before)
        text, ends = "", []
        for token in known.answer:
            text += detokenizer.push(token)
            ends.append(len(text))
        return cls(text + detokenizer.flush(), tuple(ends))

    def token_at(self, character: int) -> int:
        """The position of the token that completed the character at this index."""
        return min(bisect_right(self.ends, character), max(0, len(self.ends) - 1))
