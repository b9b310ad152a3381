"""The account of a prompt: each character and token that the model sees, and who put it there."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cutaway.errors import ParameterError
from cutaway.text import Origin, Piece, Segment, traced_prompt
from cutaway.text.chat.messages import checked_messages
from cutaway.text.chat.origins import CLOCK
from cutaway.text.chat_prompt import RESERVED
from cutaway.xray.prompt_model import PromptModel

Author = Literal["user", "template", "tokenizer", "cutaway", "mixed", "unknown"]
"""user: the caller, in a message, a tool, a document or a variable, whatever the message's role. template: the chat
template's own text, and roles and the clock, which it writes. tokenizer: a beginning or end token, and a prefix space.
cutaway: the description of tools that the template does not show. mixed: a token over several authors' characters."""


@dataclass(frozen=True, slots=True)
class PromptInput:
    """What is asked: messages, or a text that is completed as it is, or token ids.

    tools, documents, variables, add_generation_prompt, continue_final_message: as `Engine.chat_prompt` takes them.
    """

    messages: Sequence[Mapping[str, Any]] | None = None
    text: str | None = None
    ids: Sequence[int] | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    documents: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if [self.messages, self.text, self.ids].count(None) != 2:
            raise ParameterError("a prompt is messages, or a text, or token ids: give one of them")
        if wrong := sorted(RESERVED & self.variables.keys()):
            raise ParameterError(f"a variable of a chat template cannot be called {wrong[0]}")


@dataclass(frozen=True, slots=True)
class PromptSpan:
    """Characters [start, end) of the rendered text from one source. source: a path ("messages[0].content"), "clock",
    "" for the template's own text, None where it is not known. message: the index of the message it belongs to."""

    start: int
    end: int
    by: Author
    source: str | None
    message: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class PromptToken:
    """One token. bytes: as the vocabulary spells it. start, end: characters of the rendered text. kind: of the
    vocabulary's entry ("normal", "control", "user", "byte", "unknown", "unused")."""

    index: int
    id: int
    piece: str
    bytes: bytes
    start: int
    end: int
    kind: str
    by: Author
    source: str | None = None
    message: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Tokens by what they are spent on. of_prompt, of_context: shares, 0 to 1; None: the context is not known."""

    what: str
    tokens: int
    of_prompt: float
    of_context: float | None


@dataclass(frozen=True, slots=True)
class PromptAccount:
    """text: what the model sees, its markers spelled out. spans: in order, without gaps. tokens: in order."""

    model: str
    context: int | None
    text: str
    spans: tuple[PromptSpan, ...]
    tokens: tuple[PromptToken, ...]

    @property
    def shares(self) -> tuple[Share, ...]:
        """Largest first."""
        counts = Counter(map(_spent_on, self.tokens))
        whole, context = len(self.tokens), self.context
        made = [Share(w, n, n / whole, n / context if context else None) for w, n in counts.items()]
        return tuple(sorted(made, key=lambda share: -share.tokens))

    def first_token(self, start: int) -> int | None:
        """The index of the first token that reaches beyond the character `start`."""
        return next((t.index for t in self.tokens if t.end > start), None)


def prompt_account(model: PromptModel, asked: PromptInput) -> PromptAccount:
    """What the model sees of a prompt, and who put it there. Renders a chat a few times; computes nothing else.

    Raises and warns as `Engine.token_ids`.
    """
    if asked.ids is not None:
        return _of_ids(model, asked.ids)
    if asked.text is not None:
        segments, spans = [Segment(asked.text, False)], [PromptSpan(0, len(asked.text), "user", "prompt")]
        pieces = model.tokenizer.segment_pieces(segments, add_special=True)
        ids = model.tokenizer.encode(asked.text)
    else:
        assert asked.messages is not None
        segments, spans = _rendered(model, asked)
        pieces, ids = model.tokenizer.segment_pieces(segments), model.tokenizer.encode_segments(segments)
    assert ids == [piece.id for piece in pieces], "the pieces are not the tokens"
    text = "".join(segment.text for segment in segments)
    return PromptAccount(model.name, model.context, text, tuple(spans), tuple(_tokens(pieces, spans)))


def _rendered(model: PromptModel, asked: PromptInput) -> tuple[list[Segment], list[PromptSpan]]:
    assert asked.messages is not None
    (segments, origins), added = traced_prompt(
        model.template, asked.messages, tools=asked.tools, tool_format=model.tool_format, documents=asked.documents,
        add_generation_prompt=asked.add_generation_prompt, continue_final_message=asked.continue_final_message,
        **asked.variables,
    )  # fmt: skip
    roles = [message["role"] for message in checked_messages(asked.messages)]
    text = "".join(segment.text for segment in segments)
    if any(origin.source is None for origin in origins):
        return segments, list(_by_segments(segments))
    return segments, [span for origin in origins for span in _with_added(_span(origin, roles), text, added.strip())]


def _by_segments(segments: Sequence[Segment]) -> Iterator[PromptSpan]:
    """The spans that are known even without origins: only the template writes markers."""
    start = 0
    for text, special in segments:
        end = start + len(text)
        yield PromptSpan(start, end, "template", "") if special else PromptSpan(start, end, "unknown", None)
        start = end


def _span(origin: Origin, roles: Sequence[str]) -> PromptSpan:
    start, end, source = origin
    assert source is not None
    found = re.match(r"messages\[(\d+)\](.*)", source)
    message = int(found[1]) if found and int(found[1]) < len(roles) else None
    role = None if message is None else roles[message]
    written = source in ("", CLOCK) or (found is not None and found[2] == ".role")
    return PromptSpan(start, end, "template" if written else "user", source, message, role)


def _with_added(span: PromptSpan, text: str, added: str) -> Iterator[PromptSpan]:
    """The span, cut where it ends with what was put in to describe the tools."""
    at = text.rfind(added, span.start, span.end) if added and span.by == "user" else -1
    if at < 0:
        yield span
        return
    if at > span.start:
        yield PromptSpan(span.start, at, span.by, span.source, span.message, span.role)
    yield PromptSpan(at, span.end, "cutaway", "tools", span.message, span.role)


def _tokens(pieces: Sequence[Piece], spans: Sequence[PromptSpan]) -> Iterator[PromptToken]:
    place = 0
    for index, piece in enumerate(pieces):
        while place < len(spans) - 1 and spans[place].end <= piece.start:
            place += 1
        over = []
        for span in spans[place:] if piece.end > piece.start else ():
            if span.start >= piece.end:
                break
            over.append(span)
        yield _token(index, piece, over)


def _token(index: int, piece: Piece, over: Sequence[PromptSpan]) -> PromptToken:
    def agreed(name: str) -> Any:
        values = {getattr(span, name) for span in over}
        return values.pop() if len(values) == 1 else None

    by: Author = agreed("by") or ("mixed" if over else "tokenizer")
    return PromptToken(
        index, piece.id, piece.piece, piece.bytes, piece.start, piece.end, piece.kind, by,
        agreed("source"), agreed("message"), agreed("role"),
    )  # fmt: skip


def _of_ids(model: PromptModel, ids: Sequence[int]) -> PromptAccount:
    """Token ids alone do not tell who wrote what."""
    tokenizer, decoder = model.tokenizer, getincrementaldecoder("utf-8")("replace")
    if wrong := [id for id in ids if not 0 <= id < len(tokenizer.vocabulary)]:
        raise ParameterError(f"the prompt has the id {wrong[0]}; ids of this model are 0 to {tokenizer.vocab_size - 1}")
    tokens, text = [], ""
    for index, id in enumerate(ids):
        start = len(text)
        text += decoder.decode(spelled := tokenizer.vocabulary.spelled_bytes(id))
        end = len(text) + bool(decoder.getstate()[0])  # bytes of a character that is not whole yet
        tokens.append(PromptToken(index, id, tokenizer.piece(id), spelled, start, end, tokenizer.kind(id), "unknown"))
    text += decoder.decode(b"", final=True)
    return PromptAccount(model.name, model.context, text, (PromptSpan(0, len(text), "unknown", None),), tuple(tokens))


def _spent_on(token: PromptToken) -> str:
    """What a token is counted under."""
    source = token.source or ""
    if token.by == "cutaway":
        return "tools, described"
    if token.by != "user" and not (token.by == "template" and source == CLOCK):
        return token.by
    if token.role is not None:
        return f"{token.role} messages"
    return re.split(r"[.\[]", source)[0] or token.by
