"""The table of routes. A new endpoint needs its file and a line here."""

from __future__ import annotations

from cutaway.server.api import (
    chat,
    completions,
    infill,
    messages,
    models,
    ollama,
    ollama_models,
    ollama_request,
    responses,
    schemas,
    tokenize,
)
from cutaway.server.inspect.table import INSPECT_ROUTES
from cutaway.server.route import Route
from cutaway.server.transport.dialects import ANTHROPIC, LLAMA_CPP, OLLAMA, RESPONSES

ROUTES = (
    Route(
        "POST", "/v1/chat/completions", chat.chat, schemas.Chat, prompt_field="messages", operation="chat"
    ),
    Route(
        "POST", "/v1/completions", completions.completions, schemas.Completion, prompt_field="prompt",
        operation="text_completion",
    ),
    Route(
        "POST", "/v1/responses", responses.responses, schemas.Responses, RESPONSES, prompt_field="input",
        operation="chat",
    ),
    Route("POST", "/v1/responses/input_tokens", responses.input_tokens, schemas.CountInput, prompt_field="input"),
    Route(
        "POST", "/v1/messages", messages.messages, schemas.Messages, ANTHROPIC, prompt_field="messages",
        operation="chat",
    ),
    Route(
        "POST", "/v1/messages/count_tokens", messages.count_tokens, schemas.CountTokens, ANTHROPIC,
        prompt_field="messages",
    ),
    Route("GET", "/v1/models", models.models),
    Route("GET", "/v1/models/{name:path}", models.model),
    Route(
        "POST", "/infill", infill.infill, schemas.Infill, LLAMA_CPP, prompt_field="input_prefix",
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
    Route("POST", "/tokenize", tokenize.tokenize, schemas.Tokenize),
    Route("POST", "/detokenize", tokenize.detokenize, schemas.Detokenize),
    Route("POST", "/apply-template", tokenize.apply_template, schemas.ApplyTemplate),
    Route("GET", "/tokenizer_info", tokenize.tokenizer_info),
    Route("GET", "/health", models.health),
    Route("GET", "/version", models.show_version),
    Route("GET", "/metrics", models.metrics),
    *INSPECT_ROUTES,
)  # fmt: skip
