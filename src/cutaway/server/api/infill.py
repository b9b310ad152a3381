"""POST /infill: generates the text between two texts, with the markers that the model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.sampling import SamplingParams
from cutaway.server.api.generate import Asked, generate
from cutaway.server.api.sampling import check_told
from cutaway.server.api.schemas import Choosing, Infill
from cutaway.server.generation.caught_warnings import heard
from cutaway.server.generation.completed import Message
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.generation.prompt_input import Prepared
from cutaway.server.models.served_model import Served
from cutaway.server.transport.errors import bad_request
from cutaway.text import Tokenizer


class FillMarkers(NamedTuple):
    """Token ids of the markers before the prefix, before the suffix, and before the generated text."""

    prefix: int
    suffix: int
    middle: int


_SPELLINGS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen, CodeGemma
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),  # Code Llama
    ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),  # GLM
)
_FURTHER = ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<fim_pad>", "<file_sep>", "<EOT>", "▁<EOT>")
_FILE = "<|file_sep|>"


def fill_markers(tokenizer: Tokenizer) -> FillMarkers | None:
    """The markers of this vocabulary, or None if it has no complete set."""
    for spelling in _SPELLINGS:
        prefix, suffix, middle = (tokenizer.vocabulary.find(name) for name in spelling)
        if prefix is not None and suffix is not None and middle is not None:
            return FillMarkers(prefix, suffix, middle)
    return None


@dataclass(frozen=True, slots=True)
class Gap:
    """The gap between `before` and `after`. files: context files, (name, text). begun: the start of the filling.

    Markers in the texts are read as plain text.
    """

    before: str
    after: str
    files: Sequence[tuple[str, str]] = ()
    begun: str = ""
    field: str = "suffix"

    def prepare(self, served: Served, engine: Engine, params: SamplingParams) -> Prepared:
        """The prompt: prefix, suffix, middle. Raises ApiError for a model without fill-in-the-middle markers."""
        markers = fill_markers(engine.tokenizer)
        if markers is None:
            raise bad_request(
                f"{served.name} cannot fill in a gap: its vocabulary has no fill-in-the-middle markers", self.field,
                "infill_unsupported",
            )  # fmt: skip
        warnings: list[str] = []
        tokens = heard(warnings, self._tokens, engine.tokenizer, markers)
        find = engine.tokenizer.vocabulary.find
        ends = {*params.stop_token_ids, *markers, *(id for name in _FURTHER if (id := find(name)) is not None)}
        return Prepared([tokens], params.replace(stop_token_ids=tuple(sorted(ends))), warnings=tuple(warnings))

    def _tokens(self, tokenizer: Tokenizer, markers: FillMarkers) -> list[int]:
        def plain(text: str) -> list[int]:
            return tokenizer.encode(text, add_special=False) if text else []

        ids = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
        separator = tokenizer.vocabulary.find(_FILE)
        for name, text in self.files:
            ids += [separator] if separator is not None else []
            ids += plain(f"{name}\n{text}" if separator is not None else f"{name}\n{text}\n\n")
        if self.files and separator is not None:
            ids += [separator, *plain("\n")]
        ids += [markers.prefix, *plain(self.before), markers.suffix, *plain(self.after), markers.middle]
        return ids + plain(self.begun)


async def infill(request: Request) -> Response:
    """Generate the text between input_prefix and input_suffix (llama.cpp's infill)."""
    return await generate(request, _asked, InfillTeller)


def _asked(fields: Infill) -> Asked:
    check_told(fields)
    files = []
    for number, extra in enumerate(fields.input_extra or ()):
        name, text = extra.get("filename", f"file {number}"), extra.get("text")
        if not isinstance(name, str) or not isinstance(text, str):
            raise bad_request(
                f"input_extra.{number} must be {{filename, text}}", "input_extra", "parameter_invalid"
            )  # fmt: skip
        files.append((name, text))
    return Asked(Gap(fields.input_prefix, fields.input_suffix, files, fields.prompt or "", field="input_suffix"))


class InfillTeller:
    """Formats a run in the format of llama.cpp's server."""

    def __init__(self, run: Run, fields: Choosing) -> None:
        self.run = run
        self._timings = bool(fields.timings)

    def begin(self) -> list[dict[str, Any]]:
        return []

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The text of a piece, and the figures with the last one."""
        told = []
        if piece.told.content:
            tokens = [] if piece.token is None else [piece.token]
            told.append({"index": 0, "content": piece.told.content, "tokens": tokens, "stop": False})
        if piece.stop is not None:
            told.append(self._end("", piece.stop.kind, piece.reason, piece.stop.matched))
        return told

    def end(self) -> list[dict[str, Any]]:
        return []

    def whole(self, messages: list[Message]) -> dict[str, Any]:
        (message,) = messages
        assert message.stop is not None
        return self._end(message.content, message.stop.kind, message.reason, message.stop.matched)

    def _end(self, content: str, kind: str, reason: str | None, matched: Any) -> dict[str, Any]:
        usage = self.run.usage()
        word = kind in ("stop_string", "stop_regex")
        return {
            "index": 0, "content": content, "tokens": [], "model": self.run.visit.model, "stop": True,
            "stop_type": "limit" if reason == "length" else "word" if word else "eos",
            "stopping_word": matched if word else "", "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens, "tokens_cached": usage.cached_tokens, "truncated": False,
        } | self.run.asides(timings=self._timings)  # fmt: skip
