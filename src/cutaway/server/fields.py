"""The fields of requests, by route: what they may be. OpenAI's names first, then vLLM's, llama.cpp's, ours."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field

Ids = list[int]
Texts = str | list[str]


class StreamOptions(BaseModel):
    """What a stream tells beside the answer."""

    model_config = ConfigDict(strict=True, extra="allow")

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class Fields(BaseModel):
    """Any request. null equals absent."""

    model_config = ConfigDict(strict=True, extra="allow")
    without_effect: ClassVar[tuple[str, ...]] = ()
    """Names that only this route takes without obeying them."""


class Choosing(Fields):
    """How tokens are chosen and when to stop; docs/api.md says what each does. Ranges are SamplingParams' own."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    strict: bool | None = Field(None, description="An unknown field is an error instead of a warning.")
    timings: bool | None = Field(None, description="Tell where the time went.")
    preset: str | None = None
    # choosing: OpenAI
    temperature: float | None = None
    top_p: float | None = None
    n: Annotated[int, Ge(1), Le(128)] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    # vLLM, SGLang
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    bad_words: list[str] | None = None
    allowed_token_ids: Ids | None = None
    no_repeat_ngram_size: int | None = None
    # llama.cpp
    repeat_penalty: float | None = None
    typical_p: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    mirostat: Literal[0, 2] | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    # ours
    temperature_end: float | None = None
    temperature_length: int | None = None
    dynamic_temperature_range: float | None = None
    dynamic_temperature_exponent: float | None = None
    no_repeat_ngram: int | None = None
    allowed_tokens: Ids | None = None
    banned_tokens: Ids | None = None
    # stopping
    stop: Texts | None = None
    stop_regex: Texts | None = None
    stop_token_ids: Ids | None = None
    include_stop_str: bool | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    max_tokens: Annotated[int, Ge(0)] | None = None
    n_predict: Annotated[int, Ge(-1)] | None = None
    min_tokens: int | None = None
    min_new_tokens: int | None = None
    time_limit: float | None = None
    t_max_predict_ms: float | None = None
    # telling
    logprobs_mode: Literal["raw", "processed"] | None = None
    prompt_logprobs: Annotated[int, Ge(0), Le(100)] | None = None
    return_token_ids: bool | None = None
    # the form of the output; the first three as vLLM, llama.cpp has json_schema and grammar, too
    response_format: dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_schema: dict[str, Any] | bool | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    structured_outputs: dict[str, Any] | None = None
    # the engine
    speculate: Literal["ngram", "off", False] | None = Field(
        None, description="Compute tokens beforehand where the answer repeats what was there; null: as the server says."
    )
    cache_salt: str | None = Field(None, description="Share prefixes only with requests of the same salt.")
    truncation: Literal["error", "auto", "disabled"] | None = None


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
"""What only a server that keeps responses could obey; refused where the value asks for it."""


class Infill(Choosing):
    """POST /infill"""

    input_prefix: str
    input_suffix: str
    input_extra: list[dict[str, Any]] | None = None
    prompt: str | None = None


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
"""What only a server that runs programs could obey; refused where the value asks for it."""
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
    parse_special: bool | None = Field(None, description="Read control tokens in the text. Off unless asked for.")
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
