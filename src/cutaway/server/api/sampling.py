"""From the fields of a request to sampling parameters, whichever server's names they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutaway.config import LimitsConfig
from cutaway.errors import CutawayError
from cutaway.sampling import PARAMETERS, PRESETS, SamplingParams, preset
from cutaway.sampling.parameter import bias_of
from cutaway.sampling.params import CONSTRAINTS
from cutaway.server.api.schemas import Chat, Choosing
from cutaway.server.transport.errors import as_api_error, bad_request

OURS = {alias.name: parameter.name for parameter in PARAMETERS for alias in parameter.aliases}
"""Other servers' names of our parameters."""

SCALES = {alias.name: alias.scale for parameter in PARAMETERS for alias in parameter.aliases if alias.scale != 1}

_TAKEN = {parameter.name for parameter in PARAMETERS if parameter.request is True} | {"json_object"}
"""Parameters that a field of their own or of another name may give; others are read by a route itself."""
Form = tuple[str, Mapping[str, Any]]
"""A field, and what it says in the shape of `response_format`."""
_STRUCTURED = {
    "json": "json_schema",
    "json_object": "json_object",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
}


def sampling_params(
    fields: Choosing,
    defaults: SamplingParams,
    limits: LimitsConfig,
    config: Mapping[str, Any],
    *,
    form: Form | None = None,
    **more: Any,
) -> tuple[SamplingParams, list[str], dict[str, str]]:
    """The parameters of a request over the config's over the model's, warnings, and what the request called them.

    form: what the route has for `response_format`. more: what the route says of its own (it wins).
    Raises ApiError that names the field as the request did.
    """  # fmt: skip
    said, names = _said(fields, form)
    said |= more
    warnings: list[str] = []
    _limit(said, limits, warnings)
    try:
        return _base(fields.preset, defaults, config).replace(**said), warnings, names
    except CutawayError as error:
        raise as_api_error(error, names) from None


def _base(name: str | None, defaults: SamplingParams, config: Mapping[str, Any]) -> SamplingParams:
    """What holds where the request says nothing: a preset that it names, else the config's, else the model's own."""
    options = {key: value for key, value in config.items() if key != "preset"}
    if name is not None and name not in PRESETS:
        raise bad_request(f"preset is {name!r}; it must be one of {', '.join(PRESETS)}", "preset", "parameter_invalid")
    if name is not None and name != "chat":
        return preset(name, **{k: v for k, v in options.items() if k in ("max_tokens", "seed")})
    own = config.get("preset")
    return (defaults if own in (None, "chat") else preset(own)).replace(**options)


def _said(fields: Choosing, form: Form | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Our parameters as the request gave them, and what it called them. Raises ApiError for two that disagree."""
    said: dict[str, Any] = {}
    names: dict[str, str] = {}
    for field in type(fields).model_fields:
        ours = OURS.get(field, field)
        value = getattr(fields, field)
        if value is None or ours not in _TAKEN:
            continue
        value = _converted(field, value)
        if ours in said and said[ours] != value:
            raise bad_request(f"{names[ours]} and {field} mean the same here, and differ", field, "parameter_invalid")
        said[ours], names[ours] = value, field
    _form(fields, form, said, names)
    return said, names


def _converted(field: str, value: Any) -> Any:
    if field in SCALES:
        return value * SCALES[field]
    if field == "n_predict" and value == -1:
        return None
    if field == "speculate":
        return value or "off"
    if field == "logit_bias":
        try:
            return bias_of(value)
        except ValueError as error:
            raise bad_request(str(error), field, "parameter_invalid") from None
    return value


def _form(fields: Choosing, form: Form | None, said: dict[str, Any], names: dict[str, str]) -> None:
    """response_format and structured_outputs as one of our constraints; there may be one in all."""
    forms = [("response_format", fields.response_format), *([form] if form is not None else [])]
    found = [entry for field, given in forms for entry in _response_format(field, given)]
    for ours, field, value in [*found, *_structured(fields.structured_outputs)]:
        if ours in said and said[ours] != value:
            raise bad_request(
                f"{names[ours]} and {field} both say what form the output has", field, "parameter_invalid"
            )
        said[ours], names[ours] = value, field
    several = [names[name] for name in CONSTRAINTS if name in said]
    if len(several) > 1:
        raise bad_request(f"{' and '.join(several)} both say what form the output has", several[1], "parameter_invalid")


def _response_format(field: str, given: Mapping[str, Any] | None) -> list[tuple[str, str, Any]]:
    """OpenAI's: {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}; llama.cpp has `schema` beside
    `type`. Our parameter, what the request called it, its value. Raises ApiError."""
    kind = (given or {}).get("type")
    if given is None or kind == "text":
        return []
    if kind == "json_object" and given.get("schema") is None:
        return [("json_object", field, True)]
    if kind not in ("json_schema", "json_object"):
        raise bad_request(
            f"{field}.type is {kind!r}; it must be 'text', 'json_object' or 'json_schema'",
            field,
            "parameter_invalid",
        )
    named = given.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else given.get("schema")
    if not isinstance(schema, dict | bool):
        raise bad_request(
            f"{field}.json_schema.schema must be a JSON schema, and is {schema!r}", field, "parameter_invalid"
        )
    return [("json_schema", field, schema)]


def _structured(given: dict[str, Any] | None) -> list[tuple[str, str, Any]]:
    """vLLM's structured_outputs: {"json" | "regex" | "choice" | "grammar" | "json_object": ...}."""
    found: list[tuple[str, str, Any]] = []
    for key, value in (given or {}).items():
        if value is None or value is False:
            continue
        if key not in _STRUCTURED:
            raise bad_request(
                f"structured_outputs.{key} is not supported; it may have {', '.join(_STRUCTURED)}",
                "structured_outputs", "parameter_unsupported",
            )  # fmt: skip
        found.append((_STRUCTURED[key], "structured_outputs", value))
    return found


def _limit(said: dict[str, Any], limits: LimitsConfig, warnings: list[str]) -> None:
    """What the server allows. Asking for more tokens is an error, as no later try can help; time only ends sooner."""
    most, seconds = limits.tokens_per_request, limits.seconds_per_request
    if most is not None:
        asked = said.get("max_tokens")
        if asked is not None and asked > most:
            raise bad_request(
                f"max_tokens is {asked}; this server allows {most} per request", "max_tokens", "limit_exceeded"
            )
        if asked is None:
            said["max_tokens"] = most
    if seconds is not None and said.get("time_limit") is not None and said["time_limit"] > seconds:
        warnings.append(f"time_limit {said['time_limit']:g} s is more than the {seconds:g} s this server allows")
    if seconds is not None:
        said["time_limit"] = min(seconds, said.get("time_limit") or seconds)


def chat_logprobs(fields: Chat) -> int | None:
    """OpenAI's two fields as our one. Raises ApiError."""
    if fields.top_logprobs is not None and not fields.logprobs:
        raise bad_request("top_logprobs needs logprobs: true", "top_logprobs", "parameter_invalid")
    return (fields.top_logprobs or 0) if fields.logprobs else None


def check_stream_options(fields: Choosing) -> None:
    """Raises ApiError."""
    if fields.stream_options is not None and not fields.stream:
        raise bad_request("stream_options is only allowed when stream is true", "stream_options", "parameter_invalid")


def check_told(fields: Choosing) -> None:
    """Of the routes whose reply has room for one answer and no token ids. Raises ApiError."""
    if fields.n is not None and fields.n != 1:
        raise bad_request(f"n is {fields.n}; this route gives one answer", "n", "parameter_unsupported")
    for name, value in (("prompt_logprobs", fields.prompt_logprobs), ("return_token_ids", fields.return_token_ids)):
        if value is not None and value is not False:
            raise bad_request(f"{name} is not supported: this API has no place for it", name, "parameter_unsupported")


def wants_running_usage(fields: Choosing) -> bool:
    """Whether every chunk of a stream says the usage so far (vLLM's `continuous_usage_stats`)."""
    return bool(wants_usage(fields) and fields.stream_options and fields.stream_options.continuous_usage_stats)


def wants_usage(fields: Choosing) -> bool:
    """Whether a stream ends with a chunk of usage."""
    return bool(fields.stream_options and fields.stream_options.include_usage)
