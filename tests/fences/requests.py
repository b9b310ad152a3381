"""The requests to the server whose replies are recorded: every route, whole and streamed, and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
HELLO = [{"role": "user", "content": "hello"}]
TALK = [
    {"role": "system", "content": "Be brief."}, *HELLO, {"role": "assistant", "content": "the end"},
    {"role": "user", "content": [{"type": "text", "text": "and "}, {"type": "text", "text": "again"}]},
]  # fmt: skip
GREEDY = {"temperature": 0, "seed": 7, "max_tokens": 6}
SAMPLED = {"temperature": 0.9, "top_p": 0.95, "top_k": 40, "min_p": 0.01, "seed": 11, "max_tokens": 6}
EVERY_STAGE = SAMPLED | {
    "repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.2, "no_repeat_ngram": 3,
    "dry_multiplier": 0.8, "typical_p": 0.95, "top_n_sigma": 3.0, "logit_bias": {"65": 2.5, "66": -100},
    "banned_tokens": [67], "bad_words": ["zz"], "min_tokens": 2,
}  # fmt: skip
SCHEMA = {
    "type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["ok", "n"], "additionalProperties": False,
}  # fmt: skip
FORMAT = {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
CALL = {"tools": [TOOL], "tool_choice": "required", "temperature": 0, "seed": 1, "max_tokens": 80}
ANTHROPIC_TOOL = {"name": "look", "description": "Looks.", "input_schema": SCHEMA}
RESPONSES_TOOL = {"type": "function", "name": "look", "description": "Looks.", "parameters": SCHEMA}


@dataclass(frozen=True)
class Asked:
    """One request. body: JSON, or bytes as they are, or None. headers: beside those of every request; "" takes one
    away."""

    name: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def post(name: str, path: str, **fields: Any) -> Asked:
    return Asked(name, "POST", path, fields)


def both(name: str, path: str, **fields: Any) -> list[Asked]:
    """The same, whole and streamed."""
    return [post(name, path, **fields), post(f"{name}, streamed", path, **fields, stream=True)]


REQUESTS: list[Asked] = [
    Asked("health", "GET", "/health"),
    Asked("models", "GET", "/v1/models"),
    Asked("a model", "GET", "/v1/models/tiny"),
    Asked("an alias", "GET", "/v1/models/other"),
    Asked("an unknown model", "GET", "/v1/models/none"),
    post("tokenize a prompt", "/tokenize", prompt="hello the <|im_end|> \u4e2d"),
    post("tokenize with pieces", "/tokenize", content="hello<|im_end|>", parse_special=True, with_pieces=True),
    post("tokenize messages", "/tokenize", messages=HELLO, return_token_strs=True),
    post("detokenize", "/detokenize", tokens=[104, 105, 256, 270, 276]),
    post("detokenize what is not there", "/detokenize", tokens=[99999]),
    post("apply a template", "/apply-template", messages=TALK),
    post("apply a template with tools", "/apply-template", messages=HELLO, tools=[TOOL]),
    *both("chat", CHAT, messages=HELLO, **GREEDY),
    *both("chat of several turns, sampled", CHAT, messages=TALK, **SAMPLED),
    *both("chat with logprobs", CHAT, messages=HELLO, logprobs=True, top_logprobs=2, **SAMPLED),
    *both("chat, two answers, token ids", CHAT, messages=HELLO, n=2, return_token_ids=True, **SAMPLED),
    *both("chat with every stage", CHAT, messages=HELLO, **EVERY_STAGE),
    *both("chat with mirostat", CHAT, messages=HELLO, **(SAMPLED | {"mirostat": 2})),
    *both("chat with XTC", CHAT, messages=HELLO, **SAMPLED, xtc_probability=0.5, xtc_threshold=0.02),
    *both("chat with timings", CHAT, messages=HELLO, timings=True, **GREEDY),
    post("chat, streamed, usage", CHAT, messages=HELLO, stream=True, stream_options={"include_usage": True}, **GREEDY),
    *both("chat, JSON by schema", CHAT, messages=HELLO, response_format=FORMAT, **(GREEDY | {"max_tokens": 40})),
    post("chat, a choice", CHAT, messages=HELLO, choice=["yes", "no"], **GREEDY),
    post("chat, a regular expression", CHAT, messages=HELLO, regex="[ab]{3}", **GREEDY),
    *both("chat, a tool", CHAT, messages=HELLO, **CALL),
    post("chat with an unknown field", CHAT, messages=HELLO, temprature=1, **GREEDY),
    post("chat with a stop", CHAT, messages=HELLO, stop=["a", "e", "i"], **(SAMPLED | {"max_tokens": 30})),
    post("chat without tokens", CHAT, messages=HELLO, **(GREEDY | {"max_tokens": 0})),
    post("chat of another model name", CHAT, model="other", messages=HELLO, **GREEDY),
    *both("completion", COMPLETIONS, prompt="the hello", **GREEDY),
    *both("completions of ids, echoed", COMPLETIONS, prompt=[[5, 6], [7, 8, 9]], echo=True, logprobs=1, **SAMPLED),
    post("completion, prompt logprobs", COMPLETIONS, prompt="the", prompt_logprobs=1, **GREEDY),
    *both("responses", RESPONSES, input="hello", instructions="Be brief.", temperature=0, seed=7, max_output_tokens=6),
    *both("responses, a tool", RESPONSES, input="hello", tools=[RESPONSES_TOOL], tool_choice="required", temperature=0,
          seed=1, max_output_tokens=80),
    post("responses of items", RESPONSES, input=[
        {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"ok\": true, \"n\": 1}"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    ], tools=[RESPONSES_TOOL], tool_choice="none", temperature=0, seed=7, max_output_tokens=6),
    *both("messages", MESSAGES, messages=HELLO, system="Be brief.", **GREEDY),
    *both("messages, a tool", MESSAGES, messages=HELLO, tools=[ANTHROPIC_TOOL], tool_choice={"type": "any"},
          **(GREEDY | {"max_tokens": 80})),
    post("count tokens", "/v1/messages/count_tokens", messages=HELLO, system="Be brief."),
    # errors
    Asked("no route", "GET", "/nowhere"),
    Asked("a method that is not taken", "GET", CHAT),
    Asked("no key", "POST", CHAT, {"messages": HELLO}, {"authorization": ""}),
    Asked("a wrong key", "POST", MESSAGES, {"messages": HELLO}, {"authorization": "Bearer nobody"}),
    Asked("no JSON", "POST", CHAT, b"{\"messages\": ["),
    Asked("no UTF-8", "POST", CHAT, b"{\"messages\": \"\xff\xfe\"}"),
    Asked("too deep", "POST", CHAT, b"[" * 200 + b"]" * 200),
    Asked("no object", "POST", COMPLETIONS, []),
    post("no messages", CHAT, **GREEDY),
    post("a wrong type", CHAT, messages=HELLO, temperature="hot"),
    post("out of range", CHAT, messages=HELLO, top_p=1.5),
    post("out of range, of messages", MESSAGES, messages=HELLO, max_tokens=4, temperature=-1),
    post("strict", CHAT, messages=HELLO, strict=True, temprature=1),
    post("not supported", COMPLETIONS, prompt="the", suffix="end", **GREEDY),
    post("two names that disagree", CHAT, messages=HELLO, max_tokens=3, max_completion_tokens=4),
    post("unknown model", CHAT, model="none", messages=HELLO),
    post("a pin that does not fit", CHAT, model="tiny@sha256:00000000", messages=HELLO),
    post("too long", COMPLETIONS, prompt="a b c " * 300, **GREEDY),
    post("a token that is not there", COMPLETIONS, prompt=[99999], **GREEDY),
    post("an image", CHAT, messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
    post("a wrong schema", CHAT, messages=HELLO, response_format={"type": "json_schema", "json_schema": {"name": "x",
         "schema": {"type": "nonsense"}}}),
    post("a wrong regular expression", CHAT, messages=HELLO, regex="("),
    post("an unknown role", CHAT, messages=[{"role": "nobody", "content": "x"}], **GREEDY),
    post("a stored response", RESPONSES, input="x", previous_response_id="resp_1"),
]  # fmt: skip
