"""`cutaway trace`: where the time of one request goes, from its arrival to its last token, down to a step's ops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.input import text_argument
from cutaway.cli.loading import open_engine, read_config, sampling_params
from cutaway.cli.options import LoadOptions, option, takes_options
from cutaway.cli.run import chat_messages
from cutaway.cli.sampling_options import SamplingOptions
from cutaway.cli.terminal import say, write_json, write_table
from cutaway.errors import CutawayError, ParameterError, TemplateError

if TYPE_CHECKING:
    from cutaway.assemble import Engine
    from cutaway.xray.course import Course
    from cutaway.xray.op_times import OpTimes
    from cutaway.xray.trace import OpRow, Trace

MOST_TOKENS = 64  # of an answer, unless --max-tokens is given


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What is traced, and how it is shown."""

    record: Annotated[
        str | None, option("--record", help="Not a prompt: a record file, an x-request-id, or last.")
    ] = None
    system: Annotated[str | None, option("--system", "-s", help="The system message.")] = None
    raw: Annotated[bool, option("--raw", help="Continue the text as it is: no chat template.")] = False
    ops: Annotated[bool, option("--ops/--no-ops", help="Measure the ops in a second run. [--ops]")] = True
    chrome: Annotated[Path | None, option("--chrome", help="Write a file that Perfetto and Chrome open.")] = None
    encoding: Annotated[str | None, option("--encoding", help="Of standard input. [detected]")] = None
    json: Annotated[bool, option("--json", help="One JSON object instead of tables.")] = False


@takes_options
def trace(
    load: LoadOptions,
    sampling: SamplingOptions,
    options: TraceOptions,
    prompt: Annotated[str | None, typer.Argument(help='The prompt; "-" reads it from standard input.')] = None,
) -> None:
    """Show where the time of a request goes: stages, steps, ops, and growth with the context.

    The prompt is answered once as always, and its text is computed a second time with every op timed alone.
    """
    from cutaway.xray.chrome_trace import chrome_trace
    from cutaway.xray.course import StepKeeper
    from cutaway.xray.trace import trace_of
    from cutaway.xray.trace_json import trace_json

    if (prompt is None) == (options.record is None):
        raise ParameterError("give a prompt, or --record with a request, one of them")
    keeper = StepKeeper()
    config = read_config(load)
    with open_engine(load, config, keeper) as engine:
        if options.record is not None:
            course = _recorded(options.record)
        else:
            course = _run(engine, keeper, text_argument(prompt or "", options.encoding), sampling, options, config)
        ops, ops_ms, why = _ops(engine, course) if options.ops else (None, None, "--ops was not given")
        told = trace_of(course, engine.inside, ops, ops_ms, why)
        if options.chrome is not None:
            options.chrome.write_text(json.dumps(chrome_trace(course, ops)), "utf-8")
        if options.json:
            write_json(trace_json(told))
            return
        _print_trace(told)
    if options.chrome is not None:
        say(f"wrote {options.chrome}: open it at ui.perfetto.dev or chrome://tracing")


def _run(
    engine: Engine, keeper: Any, text: str, sampling: SamplingOptions, options: TraceOptions, config: Any
) -> Course:
    from cutaway.xray.course import run_course

    if not options.raw and engine.template is None:
        raise TemplateError("this model has no chat template", hint="--raw continues the text", code="template_missing")
    params = sampling_params(sampling, config, engine.defaults)
    if params.max_tokens is None:
        params = params.replace(max_tokens=MOST_TOKENS)
    asked = text if options.raw else chat_messages(text, options.system)
    return run_course(engine, keeper, asked, params)


def _recorded(name: str) -> Course:
    from cutaway.xray.course import recorded_course
    from cutaway.xray.find_record import find_record

    return recorded_course(find_record(name))


def _ops(engine: Engine, course: Course) -> tuple[OpTimes | None, float | None, str]:
    from cutaway.xray.op_times import op_times

    if course.ids is None or course.answer is None:
        return None, None, "the record has no token ids"
    began = perf_counter()
    try:
        return op_times(engine, course.ids, course.answer), 1e3 * (perf_counter() - began), ""
    except CutawayError as error:
        return None, None, str(error)


# --- for people -------------------------------------------------------------------------------------------------------
def _print_trace(trace: Trace) -> None:
    course = trace.course
    tokens = f"{course.prompt_tokens} tokens of prompt, {course.tokens} of answer"
    print(f"{course.model}: {tokens}, {course.total:.1f} ms\n")
    rows = [
        [
            ("  " if s.inside else "") + s.name.replace("_", " "), s.shape, _ms(s.ms),
            "" if s.share is None else f"{s.share:.1%}", s.how,
        ]
        for s in trace.stages
    ]  # fmt: skip
    write_table(["stage", "shape", "ms", "share", "how"], rows, right=(2, 3))
    if trace.ops_ms is None:
        print(f"\nops: unknown ({trace.why})")
        return
    _print_ops("the last step of the prompt", trace.prompt_ops)
    _print_ops("the last step of the answer that was looked at", trace.answer_ops)
    print("\nhow a step of one token grows with the context (ops one by one)")
    places = [
        [str(p.context), _ms(p.ms), _ms(p.attention_ms), f"{p.attention_ms / p.ms:.1%}" if p.ms else "",
         *(f"{part.operations / 1e6:.2f}" for part in p.attention), f"{sum(a.bytes for a in p.attention) / 1e6:.2f}"]
        for p in trace.places
    ]  # fmt: skip
    headings = ["context", "ms", "attention ms", "share", "scores Mop", "softmax Mop", "values Mop", "KV read MB"]
    write_table(headings, places, right=range(8))
    print("\nms are measured, operations and bytes counted (a multiply-add is two operations, an exp one)")
    print(f"measuring the ops took {trace.ops_ms:.0f} ms")


def _print_ops(title: str, ops: Sequence[OpRow]) -> None:
    if not ops:
        return
    print(f"\n{title}")
    rows = [
        [op.part, op.label, str(op.count), _ms(op.ms), f"{op.share:.1%}", f"{op.bytes / 1e6:.2f}",
         f"{op.operations / 1e6:.1f}"]
        for op in ops
    ]  # fmt: skip
    write_table(["part", "op and its weights", "count", "ms", "share", "MB", "Mop"], rows, right=range(2, 7))


def _ms(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
