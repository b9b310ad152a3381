"""`cutaway run`: one prompt, one answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.input import text_argument
from cutaway.cli.languages import foreign, known_languages
from cutaway.cli.loading import open_engine, read_config, sampling_params, set_date
from cutaway.cli.options import LoadOptions, option, takes_options
from cutaway.cli.own_record import keep
from cutaway.cli.reasoned_form import (
    ReasonedForm,
    Reasoning,
    check_markers,
    reasoned_form,
    tell_reasoning,
    with_reasoning,
)
from cutaway.cli.report import as_json, finish, seed_line, timings_line
from cutaway.cli.sampling_options import SamplingOptions
from cutaway.cli.sliding import Truncation, check_truncation, sliding_stream
from cutaway.cli.terminal import say, write, write_json
from cutaway.errors import ParameterError, TemplateError

if TYPE_CHECKING:
    from cutaway.assemble import Engine, Prompt
    from cutaway.engine import Result
    from cutaway.sampling import SamplingParams
    from cutaway.text import ReasoningParser
    from cutaway.trace import JsonlRecorder


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The input beside the prompt, and the output beside the answer."""

    system: Annotated[str | None, option("--system", "-s", help="The system message.")] = None
    raw: Annotated[bool, option("--raw", help="Continue the text as it is, without a chat template.")] = False
    encoding: Annotated[str | None, option("--encoding", help="Encoding of standard input. [detected]")] = None
    json: Annotated[bool, option("--json", help="Write one JSON object: text, token ids, usage, stop, seed, ...")] = (
        False
    )
    timings: Annotated[bool, option("--timings", help="Report on standard error where the time went.")] = False
    truncation: Truncation = "error"
    reasoning: Reasoning = "auto"
    date: Annotated[str | None, option("--date", help="What the template sees as now: 2026-12-01.")] = None
    trace: Annotated[Path | None, option("--trace", help="Write a JSON record per token and step to this file.")] = None


@takes_options
def run(
    prompt: Annotated[str, typer.Argument(help='The prompt; "-" reads it from standard input.')],
    load: LoadOptions,
    sampling: SamplingOptions,
    output: OutputOptions,
) -> None:
    """Answer one prompt. The answer is streamed to standard output; everything else goes to standard error."""
    from cutaway.sampling import draw_seed
    from cutaway.text.chat.clock import clock

    text = text_argument(prompt, output.encoding)
    if prompt == "-" and not output.raw:
        text = text.rstrip("\r\n")
    if not text and not output.raw:
        where = "standard input" if prompt == "-" else "the prompt"
        raise ParameterError(f"{where} is empty", hint="with --raw some models can start from an empty text")
    config = read_config(load)
    # A wrong parameter is reported before anything is downloaded or loaded.
    check_truncation(output.truncation, sampling_params(sampling, config))
    check_markers(output.reasoning)
    began = time.perf_counter()
    with recorder_for(output.trace) as recorder, open_engine(load, config, recorder) as engine:
        loaded = time.perf_counter() - began
        if not output.raw and engine.template is None:
            raise TemplateError(
                "this model has no chat template", hint="--raw continues the text as it is", code="template_missing"
            )
        params = sampling_params(sampling, config, engine.defaults)
        system = output.system if output.system is not None else config.system
        if (known := known_languages(engine)) and (line := foreign(text, *known)):
            say(line)
        request = text if output.raw else chat_messages(text, system)
        set_date(engine, output.date, config)
        params, form = reasoned_form(engine, params, request, output.reasoning)
        seeded = params if params.seed is not None else params.replace(seed=draw_seed())
        asked = time.time()
        try:
            shown, slides = not output.json and params.n == 1, output.truncation == "slide"
            with clock() as seen:
                result = answer(engine, request, seeded, stream=shown, slides=slides, form=form)
        except KeyboardInterrupt:
            say("\n" + seed_line(params, seeded.seed))
            raise
        answered = result
        result, reasoning = (result, []) if form is None else form.parted(result)
        if output.json:
            told = with_reasoning(as_json(result), reasoning)
            write_json({"model": str(engine.path), "load_seconds": round(loaded, 4), **told})
        keep(engine, "run", seeded, answered, asked, seen.seen)
        finish(result, params, quiet=output.json, engine=engine)
        if output.timings:
            say(timings_line(result, loaded))


def chat_messages(text: str, system: str | None) -> list[dict[str, Any]]:
    head = [{"role": "system", "content": system}] if system is not None else []
    return [*head, {"role": "user", "content": text}]


def answer(
    engine: Engine, prompt: Prompt, params: SamplingParams, *, stream: bool, slides: bool = False,
    form: ReasonedForm | None = None,
) -> Result:  # fmt: skip
    """The result. stream: write its text as it arrives. slides: drop the oldest tokens when the context is full.
    form: the reasoning before it is written to standard error."""
    parser = form.parser() if form is not None else None
    opened, noted = sliding_stream(engine, prompt, params) if slides else (engine.stream(prompt, params), ())
    with opened as pieces:
        last = ""
        for piece in pieces:
            text = piece.text
            if stream and parser is not None:
                text = _apart(parser, text, ends=piece.result is not None)
            if stream and text:
                write(last := text)
            if piece.result is not None:
                if stream and not last.endswith("\n"):
                    write("\n")
                return replace(piece.result, warnings=(*noted, *piece.result.warnings))
    raise AssertionError("a stream ends with its result")


def _apart(parser: ReasoningParser, text: str, *, ends: bool) -> str:
    """The part that belongs to the answer; the reasoning is written to standard error."""
    pieces = [parser.push(text), *([parser.finish()] if ends else [])]
    tell_reasoning("".join(piece.reasoning for piece in pieces) + ("\n" if ends else ""))
    return "".join(piece.content for piece in pieces)


@contextlib.contextmanager
def recorder_for(path: Path | None) -> Iterator[JsonlRecorder | None]:
    """A recorder to a file. The file is removed if nothing was recorded."""
    if path is None:
        yield None
        return
    from cutaway.trace import JsonlRecorder

    with JsonlRecorder(path) as recorder:
        try:
            yield recorder
        finally:
            recorder.close()
            if not path.stat().st_size:
                path.unlink()
