"""The fields of requests by route. OpenAI's names come first, then those of vLLM, llama.cpp and cutaway."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, create_model

from cutaway.sampling.parameter import Parameter
from cutaway.sampling.params import PARAMETERS

Ids = list[int]


class StreamOptions(BaseModel):
    """What a stream contains beside the answer."""

    model_config = ConfigDict(strict=True, extra="allow")

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class Fields(BaseModel):
    """The base of all requests. A field that is null counts as absent."""

    model_config = ConfigDict(strict=True, extra="allow")
    without_effect: ClassVar[tuple[str, ...]] = ()
    """Fields that only this route accepts, without effect."""


def _declared(parameter: Parameter, names: Sequence[str]) -> dict[str, Any]:
    """A parameter's field under each of these names. The range is only described here: SamplingParams checks it, with
    messages of its own."""
    kind: Any = parameter.type
    bounds: dict[str, Any] = {}
    if parameter.kind in ("number", "integer") and not parameter.choices:
        bounds = {"exclusiveMinimum" if parameter.above else "minimum": parameter.low, "maximum": parameter.high}
    return {name: (kind | None, Field(None, description=parameter.help, json_schema_extra=bounds)) for name in names}


def _table() -> dict[str, Any]:
    """The sampling parameters that every generating route accepts, under all their names."""
    found: dict[str, Any] = {}
    for parameter in PARAMETERS:
        if parameter.request is True:
            found |= _declared(parameter, [parameter.name])
        if parameter.request:
            for alias in parameter.aliases:
                if alias.everywhere:
                    scaled = dataclasses.replace(
                        parameter, low=parameter.low / alias.scale, high=parameter.high / alias.scale
                    )
                    found |= _declared(scaled, [alias.name])
    return found


if TYPE_CHECKING:

    class Sampling(Fields):
        """The fields of the sampling parameters, created below."""

        def __getattr__(self, name: str) -> Any: ...

else:
    Sampling = create_model("Sampling", __base__=Fields, __module__=__name__, **_table())


class Choosing(Sampling):
    """The sampling parameters (docs/parameters.md) and the other fields that every generating route accepts."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    strict: bool | None = Field(None, description="Treat an unknown field as an error, not as a warning.")
    timings: bool | None = Field(None, description="Include timings and figures of the prefix cache in the reply.")
    preset: str | None = None
    # sampling parameters for which the server is stricter or accepts more values
    n: Annotated[int, Ge(1), Le(128)] | None = None
    max_tokens: Annotated[int, Ge(0)] | None = None
    n_predict: Annotated[int, Ge(-1)] | None = None
    prompt_logprobs: Annotated[int, Ge(0), Le(100)] | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    speculate: Literal["ngram", "off", False] | None = Field(
        None, description="Draft tokens where the answer repeats earlier text; null uses the server's setting."
    )
    # fields that are not sampling parameters
    return_token_ids: bool | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    cache_salt: str | None = Field(None, description="Share cached prefixes only with requests of the same salt.")
    truncation: Literal["error", "auto", "slide", "disabled"] | None = None


class Chat(Choosing):
    """POST /v1/chat/completions"""

    messages: list[dict[str, Any]]
    max_completion_tokens: Annotated[int, Ge(0)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Ge(0), Le(20)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_budget: int | None = None
    thinking_token_budget: int | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    documents: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class Completion(Choosing):
    """POST /v1/completions"""

    prompt: str | list[str] | list[int] | list[list[int]]
    echo: bool | None = None
    logprobs: Annotated[int, Ge(0), Le(100)] | None = None
    suffix: str | None = None
    best_of: int | None = None
    add_special_tokens: bool | None = None


STATEFUL = ("previous_response_id", "conversation", "prompt", "background")
"""Fields that need stored responses. A value that requests them is refused."""


class Infill(Choosing):
    """POST /infill"""

    # what editors send: their order of samplers, and limits of a prompt's time and of indentation
    without_effect: ClassVar[tuple[str, ...]] = ("samplers", "n_indent", "t_max_prompt_ms")
    input_prefix: str
    input_suffix: str
    input_extra: list[dict[str, Any]] | None = None
    prompt: str | None = None
    response_fields: list[str] | None = None


_RESPONSES = (*STATEFUL, "max_tool_calls", "context_management")


class CountInput(Choosing):
    """POST /v1/responses/input_tokens"""

    without_effect: ClassVar[tuple[str, ...]] = _RESPONSES
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    include: list[str] | None = None


class Responses(CountInput):
    """POST /v1/responses"""

    max_output_tokens: Annotated[int, Ge(0)] | None = None
    top_logprobs: Annotated[int, Ge(0), Le(20)] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    user: str | None = None


ELSEWHERE = ("container", "mcp_servers")
"""Fields that need a server that executes programs. A value that requests them is refused."""
_MESSAGES = ("context_management", "cache_control", "inference_geo", *ELSEWHERE)
_OF_ANSWERS = ("max_tokens", "stop_sequences", "output_config", "output_format")


class CountTokens(Choosing):
    """POST /v1/messages/count_tokens"""

    without_effect: ClassVar[tuple[str, ...]] = (*_MESSAGES, *_OF_ANSWERS)
    messages: list[dict[str, Any]]
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None


class Messages(CountTokens):
    """POST /v1/messages"""

    without_effect = _MESSAGES
    max_tokens: Annotated[int, Ge(1)]
    stop_sequences: list[str] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None


class Tokenize(Fields):
    """POST /tokenize: a text, or messages."""

    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    documents: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    add_special: bool | None = None
    parse_special: bool | None = Field(None, description="Read control tokens in the text. The default is false.")
    with_pieces: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class Detokenize(Fields):
    """POST /detokenize"""

    model: str | None = None
    tokens: Ids
    skip_special_tokens: bool | None = None


class ApplyTemplate(Fields):
    """POST /apply-template"""

    model: str | None = None
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    documents: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
