"""The table of routes: a new endpoint is its file, and a line here."""

from __future__ import annotations

from cutaway.server import (
    chat,
    completions,
    fields,
    infill,
    info,
    messages,
    ollama,
    ollama_models,
    ollama_request,
    responses,
    tokens,
)  # fmt: skip
from cutaway.server.dialects import ANTHROPIC, LLAMA_CPP, OLLAMA, RESPONSES
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
    Route("POST", "/v1/responses/input_tokens", responses.input_tokens, fields.CountInput, prompt_field="input"),
    Route(
        "POST", "/v1/messages", messages.messages, fields.Messages, ANTHROPIC, prompt_field="messages", operation="chat"
    ),
    Route(
        "POST", "/v1/messages/count_tokens", messages.count_tokens, fields.CountTokens, ANTHROPIC,
        prompt_field="messages",
    ),
    Route("GET", "/v1/models", info.models),
    Route("GET", "/v1/models/{name:path}", info.model),
    Route(
        "POST", "/infill", infill.infill, fields.Infill, LLAMA_CPP, prompt_field="input_prefix",
        operation="text_completion",
    ),
    Route(
        "POST", "/api/chat", ollama.chat, ollama_request.OllamaChat, OLLAMA, prompt_field="messages", operation="chat"
    ),
    Route(
        "POST", "/api/generate", ollama.complete, ollama_request.OllamaGenerate, OLLAMA, prompt_field="prompt",
        operation="text_completion",
    ),
    Route("GET", "/api/tags", ollama_models.tags, dialect=OLLAMA),
    Route("POST", "/api/show", ollama_models.show, ollama_request.OllamaName, OLLAMA),
    Route("GET", "/api/ps", ollama_models.running, dialect=OLLAMA),
    Route("GET", "/api/version", ollama_models.version, dialect=OLLAMA),
    Route("POST", "/api/embed", ollama_models.embed, ollama_request.OllamaEmbed, OLLAMA),
    Route("POST", "/api/embeddings", ollama_models.embed, ollama_request.OllamaEmbed, OLLAMA),
    Route("POST", "/tokenize", tokens.tokenize, fields.Tokenize),
    Route("POST", "/detokenize", tokens.detokenize, fields.Detokenize),
    Route("POST", "/apply-template", tokens.apply_template, fields.ApplyTemplate),
    Route("GET", "/health", info.health),
    Route("GET", "/version", info.show_version),
    Route("GET", "/metrics", info.metrics),
)  # fmt: skip
