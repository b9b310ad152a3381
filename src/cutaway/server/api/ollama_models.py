"""GET /api/tags, /api/ps and /api/version, POST /api/show: the served models in Ollama's protocol."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import cutaway
from cutaway.formats import parameter_size
from cutaway.server.api.ollama_request import OllamaEmbed, OllamaName, model_name
from cutaway.server.api.validation import agreed
from cutaway.server.generation.respond import JsonReply
from cutaway.server.models.aliases import check_pin
from cutaway.server.models.served_model import Served
from cutaway.server.route import read_request
from cutaway.server.state import request_id, service_of
from cutaway.server.transport.errors import bad_request
from cutaway.text import fill_markers

PROTOCOL = "0.9.0"  # structured outputs (0.5.0), capabilities in /api/show (0.6.4), thinking (0.9.0)
FOREVER = "9999-12-31T23:59:59Z"  # a model is unloaded when another needs its memory, not after a time


async def tags(request: Request) -> Response:
    """List the served models and aliases, loaded or not."""
    roster = service_of(request).roster
    found = [_model(served, served.name) for served in roster.models.values()]
    for alias, target in roster.names.aliases.items():
        first = target if isinstance(target, str) else next(iter(target))
        found.append(_model(roster.models[first], alias))
    return JsonReply({"models": found})


async def running(request: Request) -> Response:
    """List the loaded models."""
    loaded = [served for served in service_of(request).roster.models.values() if served.engine is not None]
    more = {"expires_at": FOREVER, "size_vram": 0}
    return JsonReply({
        "models": [_model(s, s.name) | more | {"context_length": s.context, "size": _memory(s)} for s in loaded]
    })  # fmt: skip


async def version(request: Request) -> Response:
    """The version of Ollama whose protocol this is, by which clients decide what they ask for; and Cutaway's own."""
    return JsonReply({"version": PROTOCOL, "cutaway": cutaway.__version__})


async def show(request: Request) -> Response:
    """Describe one model: its template, family and capabilities. It is loaded if necessary."""
    fields: OllamaName
    fields, _ = await read_request(request)
    async with service_of(request).roster.lease(model_name(agreed(fields, "model", "name")), request_id(request)) as on:
        served, engine = on.served, on.engine
        family = engine.spec.family
        can = ["completion"]
        can += ["tools"] if served.tool_format is not None else []
        can += ["thinking"] if served.reasoning is not None else []
        can += ["insert"] if fill_markers(engine.tokenizer) is not None else []
        return JsonReply({
            "modelfile": "", "parameters": "", "license": "",
            "template": engine.template.source if engine.template is not None else "",
            "modified_at": _time(served), "details": _details(served), "capabilities": can,
            "model_info": {
                "general.architecture": family, "general.parameter_count": served.makeup.parameters,
                f"{family}.context_length": engine.context,
                f"{family}.embedding_length": engine.spec.hidden, f"{family}.block_count": engine.spec.layers,
                f"{family}.attention.head_count": engine.spec.heads,
                f"{family}.attention.head_count_kv": engine.spec.kv_heads,
            },
        })  # fmt: skip


async def embed(request: Request) -> Response:
    """Refuse the request: cutaway does not compute embeddings yet."""
    fields: OllamaEmbed
    fields, _ = await read_request(request)
    roster = service_of(request).roster
    name, pin = roster.names.find(model_name(fields.model), request_id(request))
    check_pin(name, pin, roster.models[name].sha256)
    raise bad_request(
        f"{name} generates text and cannot compute embeddings; no encoder is served", "model", "embeddings_unsupported"
    )


def _model(served: Served, name: str) -> dict[str, Any]:
    size = served.found.path.stat().st_size if served.found is not None and served.found.path.is_file() else None
    return {
        "name": name, "model": name, "modified_at": _time(served), "size": size or _memory(served),
        "digest": served.sha256, "details": _details(served),
    }  # fmt: skip


def _memory(served: Served) -> int:
    return served.plan.total if served.plan is not None else 0


def _time(served: Served) -> str:
    return datetime.fromtimestamp(served.created, UTC).isoformat().replace("+00:00", "Z")


def _details(served: Served) -> dict[str, Any]:
    family, made = served.makeup.family, served.makeup
    return {
        "parent_model": "", "format": served.format, "family": family, "families": [family] if family else [],
        "parameter_size": parameter_size(made.parameters) if made.parameters else "",
        "quantization_level": made.quantization,
    }  # fmt: skip
