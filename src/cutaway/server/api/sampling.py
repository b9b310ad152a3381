"""Converts the fields of a request, under the names of any API, to sampling parameters."""

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
"""The sampling parameters by their other names."""

SCALES = {alias.name: alias.scale for parameter in PARAMETERS for alias in parameter.aliases if alias.scale != 1}

_TAKEN = {parameter.name for parameter in PARAMETERS if parameter.request is True} | {"json_object"}
"""Parameters that have a field of their own or of another name. A route reads the others itself."""
Form = tuple[str, Mapping[str, Any]]
"""The name of a field, and its value in the format of `response_format`."""
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
    """The parameters of the request, then of the config, then of the model; warnings; and the request's names of them.

    form: the route's equivalent of `response_format`. more: parameters that the route sets; they take precedence.
    Raises ApiError, which has the request's name of the field.
    """  # fmt: skip
    given, names = _given(fields, form)
    given |= more
    warnings: list[str] = []
    _limit(given, limits, warnings)
    try:
        return _base(fields.preset, defaults, config).replace(**given), warnings, names
    except CutawayError as error:
        raise as_api_error(error, names) from None


def _base(name: str | None, defaults: SamplingParams, config: Mapping[str, Any]) -> SamplingParams:
    """The defaults: those of the request's preset, or of the config, or of the model."""
    options = {key: value for key, value in config.items() if key != "preset"}
    if name is not None and name not in PRESETS:
        raise bad_request(f"preset is {name!r}; it must be one of {', '.join(PRESETS)}", "preset", "parameter_invalid")
    if name is not None and name != "chat":
        return preset(name, **{k: v for k, v in options.items() if k in ("max_tokens", "seed")})
    own = config.get("preset")
    return (defaults if own in (None, "chat") else preset(own)).replace(**options)


def _given(fields: Choosing, form: Form | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters of the request and its names of them. Raises ApiError if synonyms have different values."""
    given: dict[str, Any] = {}
    names: dict[str, str] = {}
    for field in type(fields).model_fields:
        ours = OURS.get(field, field)
        value = getattr(fields, field)
        if value is None or ours not in _TAKEN:
            continue
        value = _converted(field, value)
        if ours in given and given[ours] != value:
            raise bad_request(
                f"{names[ours]} and {field} have the same meaning but different values", field, "parameter_invalid"
            )
        given[ours], names[ours] = value, field
    _form(fields, form, given, names)
    return given, names


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


def _form(fields: Choosing, form: Form | None, params: dict[str, Any], names: dict[str, str]) -> None:
    """Convert response_format and structured_outputs to a constraint. A request can have only one."""
    forms = [("response_format", fields.response_format), *([form] if form is not None else [])]
    found = [entry for field, given in forms for entry in _response_format(field, given)]
    for ours, field, value in [*found, *_structured(fields.structured_outputs)]:
        if ours in params and params[ours] != value:
            raise bad_request(f"{names[ours]} and {field} both set the form of the answer", field, "parameter_invalid")
        params[ours], names[ours] = value, field
    several = [names[name] for name in CONSTRAINTS if name in params]
    if len(several) > 1:
        raise bad_request(f"{' and '.join(several)} both set the form of the answer", several[1], "parameter_invalid")


def _response_format(field: str, given: Mapping[str, Any] | None) -> list[tuple[str, str, Any]]:
    """OpenAI's format {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}, or llama.cpp's, which has
    `schema` beside `type`, as (parameter, name in the request, value). Raises ApiError."""
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
            f"{field}.json_schema.schema must be a JSON schema, but is {schema!r}", field, "parameter_invalid"
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


def _limit(params: dict[str, Any], limits: LimitsConfig, warnings: list[str]) -> None:
    """Apply the server's limits. Too many tokens are an error, since a retry cannot help; a time limit is lowered."""
    most, seconds = limits.tokens_per_request, limits.seconds_per_request
    if most is not None:
        requested = params.get("max_tokens")
        if requested is not None and requested > most:
            raise bad_request(
                f"max_tokens is {requested}; this server allows {most} per request", "max_tokens", "limit_exceeded"
            )
        if requested is None:
            params["max_tokens"] = most
    if seconds is not None and params.get("time_limit") is not None and params["time_limit"] > seconds:
        warnings.append(f"time_limit {params['time_limit']:g} s is more than the {seconds:g} s that this server allows")
    if seconds is not None:
        params["time_limit"] = min(seconds, params.get("time_limit") or seconds)


def chat_logprobs(fields: Chat) -> int | None:
    """The parameter `logprobs` from OpenAI's two fields. Raises ApiError."""
    if fields.top_logprobs is not None and not fields.logprobs:
        raise bad_request("top_logprobs needs logprobs: true", "top_logprobs", "parameter_invalid")
    return (fields.top_logprobs or 0) if fields.logprobs else None


def check_stream_options(fields: Choosing) -> None:
    """Raises ApiError for stream_options without stream."""
    if fields.stream_options is not None and not fields.stream:
        raise bad_request("stream_options is only allowed when stream is true", "stream_options", "parameter_invalid")


def check_told(fields: Choosing) -> None:
    """Check a request whose reply has one answer and no token ids. Raises ApiError."""
    if fields.n is not None and fields.n != 1:
        raise bad_request(f"n is {fields.n}; this route gives one answer", "n", "parameter_unsupported")
    for name, value in (("prompt_logprobs", fields.prompt_logprobs), ("return_token_ids", fields.return_token_ids)):
        if value is not None and value is not False:
            raise bad_request(f"{name} is not supported by this API", name, "parameter_unsupported")


def wants_running_usage(fields: Choosing) -> bool:
    """Whether every chunk of a stream has the usage so far (vLLM's `continuous_usage_stats`)."""
    return bool(wants_usage(fields) and fields.stream_options and fields.stream_options.continuous_usage_stats)


def wants_usage(fields: Choosing) -> bool:
    """Whether a stream ends with a chunk of usage."""
    return bool(fields.stream_options and fields.stream_options.include_usage)
