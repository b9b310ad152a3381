"""POST /infill: generates the text between two texts, with the markers that the model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.engine import Result
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
from cutaway.text import FillMarkers, Tokenizer, fill_markers

_PROJECT, _OPEN_FILE = "myproject", "filename"  # llama.cpp's names for what its request does not name


@dataclass(frozen=True, slots=True)
class Gap:
    """The gap between `before` and `after`. files: context files, (name, text). begun: the start of the filling, put
    behind `before` as llama.cpp's server does.

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
        ends = {*params.stop_token_ids, *markers.ends}
        return Prepared([tokens], params.replace(stop_token_ids=tuple(sorted(ends))), warnings=tuple(warnings))

    def _tokens(self, tokenizer: Tokenizer, markers: FillMarkers) -> list[int]:
        def plain(text: str) -> list[int]:
            return tokenizer.encode(text, add_special=False) if text else []

        ids = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
        if self.files and markers.file is not None:  # as Qwen2.5-Coder's report has a repository
            ids += [] if markers.repository is None else [markers.repository, *plain(f"{_PROJECT}\n")]
            for name, text in self.files:
                ids += [markers.file, *plain(f"{name}\n{text}")]
            ids += [markers.file, *plain(f"{_OPEN_FILE}\n")]
        else:
            ids += [id for name, text in self.files for id in plain(f"{name}\n{text}\n\n")]
        before = plain(self.before + self.begun)
        return [*ids, markers.prefix, *before, markers.suffix, *plain(self.after), markers.middle]


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
        self._wanted = fields.response_fields if isinstance(fields, Infill) else None

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
        (done, *_) = self.run.results
        assert done is not None
        usage = self.run.usage()
        word = kind in ("stop_string", "stop_regex")
        asides = self.run.asides(timings=self._timings)
        reply: dict[str, Any] = {
            "index": 0, "content": content, "tokens": [], "model": self.run.visit.model, "stop": True,
            "stop_type": "limit" if reason == "length" else "word" if word else "eos",
            "stopping_word": matched if word else "", "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens, "tokens_cached": usage.cached_tokens, "truncated": False,
            "has_new_line": "\n" in done.text,
        } | asides | {"timings": _milliseconds(done) | asides.get("timings", {})}  # fmt: skip
        return reply if self._wanted is None else _chosen(reply, self._wanted)


def _milliseconds(done: Result) -> dict[str, Any]:
    """llama.cpp's timings. The first token counts to the prompt's time."""
    usage, times = done.usage, done.timings
    told: dict[str, Any] = {"cache_n": usage.cached_tokens}
    counts = {"prompt": usage.prompt_tokens - usage.cached_tokens, "predicted": usage.completion_tokens}
    for name, seconds in (("prompt", times.prefill), ("predicted", times.decode)):
        count = counts[name]
        told |= {
            f"{name}_n": count, f"{name}_ms": 1000 * seconds,
            f"{name}_per_token_ms": 1000 * seconds / count if count else None,
            f"{name}_per_second": count / seconds if seconds else None,
        }  # fmt: skip
    return told


def _chosen(reply: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """llama.cpp's response_fields: the values at these paths ("timings/prompt_n"), each under its path."""
    chosen = {}
    for path in paths:
        value: Any = reply
        for part in path.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            chosen[path] = value
    return chosen
