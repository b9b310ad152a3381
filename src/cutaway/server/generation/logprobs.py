"""Log-probabilities in OpenAI's two formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cutaway.engine import TokenLogprob
from cutaway.server.generation.output_parser import Told
from cutaway.text import Tokenizer

LOWEST = -9999.0  # JSON has no minus infinity; OpenAI uses this value


def chat_logprob(entry: TokenLogprob, tokenizer: Tokenizer) -> dict[str, Any]:
    """The format of chat completions: the token as text, its bytes, and the alternatives."""
    best = [_named(token, logprob, tokenizer) for token, logprob in entry.top]
    return {**_named(entry.token, entry.logprob, tokenizer), "top_logprobs": best}


def _named(token: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token)
    text = raw.decode("utf-8", "replace") if raw else tokenizer.piece(token)
    return {"token": text, "logprob": max(logprob, LOWEST), "bytes": list(raw) or None}


class TextLogprobs:
    """Tracks the tokens of an answer's visible text, without those of reasoning, of calls and of the stop."""

    def __init__(self) -> None:
        self._held: list[TokenLogprob] = []  # of tokens that have not produced text yet

    def add(self, told: Told, entry: TokenLogprob | None) -> list[TokenLogprob]:
        """The entries that belong to the text of a piece."""
        self._held += [] if entry is None else [entry]
        if not told:
            return []
        shown, self._held = self._held, []
        return shown if told.content else []


def prompt_logprobs(
    entries: Sequence[TokenLogprob | None], tokenizer: Tokenizer
) -> list[dict[str, dict[str, Any]] | None]:
    """vLLM's format: for each token of a prompt, that token and the most probable ones by id; None for the first."""
    told: list[dict[str, dict[str, Any]] | None] = []
    for entry in entries:
        if entry is None:
            told.append(None)
            continue
        ranked = [(entry.token, entry.logprob, entry.rank)]
        ranked += [(token, logprob, rank) for rank, (token, logprob) in enumerate(entry.top, 1) if token != entry.token]
        told.append({str(token): _ranked(token, logprob, rank, tokenizer) for token, logprob, rank in ranked})
    return told


def _ranked(token: int, logprob: float, rank: int, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "logprob": max(logprob, LOWEST), "rank": rank, "decoded_token": _named(token, logprob, tokenizer)["token"],
    }  # fmt: skip


class CompletionLogprobs:
    """The format of completions: four lists. Text offsets continue between calls, so that the joined pieces of a stream
    equal the whole. offset: the start of the text. after: the tokens before it, as in `Tokenizer.detokenizer`."""

    def __init__(self, tokenizer: Tokenizer, offset: int = 0, after: Sequence[int] | None = ()) -> None:
        self._tokenizer = tokenizer
        self._offset = offset
        self._detokenizer = tokenizer.detokenizer(after=after)

    def lists(self, entries: Iterable[tuple[int, TokenLogprob | None]]) -> dict[str, Any]:
        """The lists for these tokens and their entries; an entry is None for a prompt's first token."""
        out: dict[str, list[Any]] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
        for token, entry in entries:
            out["text_offset"].append(self._offset)
            self._offset += len(self._detokenizer.push(token))
            out["tokens"].append(self._text(token))
            out["token_logprobs"].append(None if entry is None else max(entry.logprob, LOWEST))
            out["top_logprobs"].append(self._best(entry))
        return out

    def _best(self, entry: TokenLogprob | None) -> dict[str, float] | None:
        """The most probable tokens, and the chosen one if it is not among them; None without an entry."""
        if entry is None:
            return None
        best = {self._text(token): max(logprob, LOWEST) for token, logprob in reversed(entry.top)}
        return {**dict(reversed(best.items())), self._text(entry.token): max(entry.logprob, LOWEST)}

    def _text(self, token: int) -> str:
        raw = self._tokenizer.token_bytes(token)
        if not raw:
            return self._tokenizer.piece(token)
        try:
            return raw.decode()
        except UnicodeDecodeError:  # like OpenAI; a part of a character has no other name
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def prompt_entries(tokens: Sequence[int], told: Sequence[TokenLogprob | None]) -> list[tuple[int, TokenLogprob | None]]:
    return list(zip(tokens, told, strict=True))
