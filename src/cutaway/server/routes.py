"""The table of routes: a new endpoint is its file, and a line here."""

from __future__ import annotations

from cutaway.server import chat, completions, fields, info, messages, responses, tokens
from cutaway.server.dialects import ANTHROPIC, RESPONSES
from cutaway.server.route import Route

ROUTES = (
    Route(
        "POST", "/v1/chat/completions", chat.chat, fields.Chat, prompt_field="messages", operation="chat"
    ),
    Route(
        "POST", "/v1/completions", completions.completions, fields.Completion, prompt_field="prompt",
        operation="text_completion",
    ),
    Route(
        "POST", "/v1/responses", responses.responses, fields.Responses, RESPONSES, prompt_field="input",
        operation="chat",
    ),
    Route(
        "POST", "/v1/messages", messages.messages, fields.Messages, ANTHROPIC, prompt_field="messages", operation="chat"
    ),
    Route(
        "POST", "/v1/messages/count_tokens", messages.count_tokens, fields.CountTokens, ANTHROPIC,
        prompt_field="messages",
    ),
    Route("GET", "/v1/models", info.models),
    Route("GET", "/v1/models/{name:path}", info.model),
    Route("POST", "/tokenize", tokens.tokenize, fields.Tokenize),
    Route("POST", "/detokenize", tokens.detokenize, fields.Detokenize),
    Route("POST", "/apply-template", tokens.apply_template, fields.ApplyTemplate),
    Route("GET", "/health", info.health),
    Route("GET", "/version", info.show_version),
    Route("GET", "/metrics", info.metrics),
)  # fmt: skip
