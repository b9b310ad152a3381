"""Options that several commands share, as values: a field of a dataclass is an option of the command.

`takes_options` turns a function of such values into a command that has all their options.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer


def option(*flags: str, help: str, **settings: Any) -> Any:
    """A typer option, shorter to write."""
    return typer.Option(*flags, help=help, show_default=False, **settings)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Which model, and how it is loaded. None: not said."""

    model: Annotated[str | None, option("--model", "-m", help="Name, path, hf:... or pypi:... [smollm2-135m]")] = None
    config: Annotated[str | None, option("--config", help="A cutaway.toml, instead of the one that is found.")] = None
    backend: Annotated[str | None, option("--backend", help="native, or reference (NumPy, slow). [native]")] = None
    context: Annotated[int | None, option("--context", help="Tokens that prompt and answer may have together.")] = None
    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None
    kv_k: Annotated[str | None, option("--kv-k", help="Type of keys: bf16, f32, int8, fp8. [bf16]")] = None
    kv_v: Annotated[str | None, option("--kv-v", help="Type of values: the same. [bf16]")] = None
    rope_scaling: Annotated[
        str | None, option("--rope-scaling", help="Stretch the context: linear:2, ntk:4, dynamic, yarn:4, ...")
    ] = None
    speculate: Annotated[
        str | None, option("--speculate", help="ngram: quicker where an answer repeats what was there; same answer.")
    ] = None


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How tokens are chosen and when to stop. Field names are those of SamplingParams; None: not said."""

    preset: Annotated[str | None, option("--preset", help="Parameters for a task; see: cutaway presets. [chat]")] = None
    seed: Annotated[int | None, option("--seed", help="Have an answer again. [drawn, and told]")] = None
    max_tokens: Annotated[int | None, option("--max-tokens", "-n", help="Of the answer. [to the context's end]")] = None
    min_tokens: Annotated[int | None, option("--min-tokens", help="No stop before that many tokens.")] = None
    temperature: Annotated[float | None, option("--temperature", "-t", help="0 is greedy.")] = None
    temperature_end: Annotated[
        float | None, option("--temperature-end", help="Move there, over --temperature-length tokens.")
    ] = None
    temperature_length: Annotated[
        int | None, option("--temperature-length", help="Tokens until --temperature-end is reached.")
    ] = None
    dynamic_temperature_range: Annotated[
        float | None, option("--dynamic-temperature-range", help="Temperature by entropy: minus and plus this much.")
    ] = None
    dynamic_temperature_exponent: Annotated[
        float | None, option("--dynamic-temperature-exponent", help="How entropy maps to temperature. [1]")
    ] = None
    top_k: Annotated[int | None, option("--top-k", help="Only the k best; 0 is off.")] = None
    top_p: Annotated[float | None, option("--top-p", help="The fewest best that hold this share; 1 is off.")] = None
    min_p: Annotated[float | None, option("--min-p", help="At least this share of the best; 0 is off.")] = None
    typical_p: Annotated[float | None, option("--typical-p", help="Locally typical sampling; 1 is off.")] = None
    repetition_penalty: Annotated[
        float | None, option("--repetition-penalty", help="For tokens of prompt and answer; 1 is off.")
    ] = None
    presence_penalty: Annotated[
        float | None, option("--presence-penalty", help="Once per token of the answer so far; -2 to 2.")
    ] = None
    frequency_penalty: Annotated[
        float | None, option("--frequency-penalty", help="Per occurrence in the answer so far; -2 to 2.")
    ] = None
    no_repeat_ngram: Annotated[int | None, option("--no-repeat-ngram", help="No run of that many tokens twice.")] = None
    logit_bias: Annotated[
        list[str] | None, option("--logit-bias", metavar="ID=BIAS", help="-100 to 100; -100 bans. Repeatable.")
    ] = None
    allowed_tokens: Annotated[
        list[int] | None, option("--allow-token", metavar="ID", help="Only these ids. Repeatable.")
    ] = None
    banned_tokens: Annotated[
        list[int] | None, option("--ban-token", metavar="ID", help="Never this id. Repeatable.")
    ] = None
    bad_words: Annotated[
        list[str] | None, option("--bad-word", metavar="TEXT", help="Never this text. Repeatable.")
    ] = None
    stop: Annotated[list[str] | None, option("--stop", metavar="TEXT", help="End before this text. Repeatable.")] = None
    stop_regex: Annotated[
        list[str] | None, option("--stop-regex", metavar="PATTERN", help="End before a match. Repeatable.")
    ] = None
    stop_token_ids: Annotated[
        list[int] | None, option("--stop-token", metavar="ID", help="End at this id. Repeatable.")
    ] = None
    include_stop_str: Annotated[bool, option("--include-stop", help="Leave what stopped it in the text.")] = False
    ignore_eos: Annotated[bool, option("--ignore-eos", help="Go on after the model's own end.")] = False
    time_limit: Annotated[float | None, option("--time-limit", help="Seconds.")] = None
    logprobs: Annotated[int | None, option("--logprobs", help="Log-probabilities, and those of the N best.")] = None
    prompt_logprobs: Annotated[int | None, option("--prompt-logprobs", help="The same for the prompt's tokens.")] = None
    logprobs_mode: Annotated[
        str | None, option("--logprobs-mode", help="raw: the model's own; processed: after the stages. [raw]")
    ] = None
    n: Annotated[int | None, option("--choices", help="How many answers. [1]")] = None


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter whose type is a dataclass replaced by one option per field."""
    bundles: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if not hasattr(kind, "__dataclass_fields__"):
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        bundles[parameter.name] = kind
        inner = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=inner[f.name])
            for f in fields(kind)
        ]

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        bundled = {name: kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for name, kind in bundles.items()}
        command(**values, **bundled)

    del with_options.__wrapped__  # typer would read the command's own signature through it
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def sampling_changes(options: SamplingOptions) -> dict[str, Any]:
    """What was said of sampling, as arguments of SamplingParams; the preset is left out. Raises ParameterError."""
    from cutaway.errors import ParameterError

    said = {f.name: getattr(options, f.name) for f in fields(options) if f.name != "preset"}
    changes = {name: value for name, value in said.items() if not (value is None or value is False or value == [])}
    bias: dict[int, float] = {}
    for item in options.logit_bias or []:
        token, _, value = item.partition("=")
        try:
            bias[int(token)] = float(value)
        except ValueError:
            raise ParameterError(f"logit_bias is {item!r}; it must be ID=BIAS, for instance 28120=-100") from None
    return changes | ({"logit_bias": bias} if bias else {})
