"""GET /health, /version, /metrics and /v1/models: the state of the server."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

import cutaway
from cutaway.server.generation.respond import JsonReply
from cutaway.server.models.aliases import check_pin
from cutaway.server.models.hashes import instruction_set
from cutaway.server.models.served_model import Served
from cutaway.server.state import request_id, service_of


async def health(request: Request) -> Response:
    """Report readiness: 200 when the models of the start are loaded, else 503, also after an engine failure.

    The reply is immediate, whatever the engines do."""
    roster = service_of(request).roster
    states = {name: "failed" if served.dead else served.state for name, served in roster.models.items()}
    if roster.ready:
        return JsonReply({"status": "ok", "models": states})
    if any(served.dead for served in roster.models.values()):
        return JsonReply({"status": "failed", "models": states}, 503)
    return JsonReply({"status": "loading", "models": states}, 503, {"retry-after": "2"})


async def show_version(request: Request) -> Response:
    """Report the version of cutaway and the instruction set of its kernels."""
    return JsonReply({"version": cutaway.__version__, "instruction_set": instruction_set("native")})


async def metrics(request: Request) -> Response:
    """Report metrics in Prometheus's text format."""
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)


async def models(request: Request) -> Response:
    """List the served models, loaded or not, and aliases, with hash, context, format and state."""
    roster = service_of(request).roster
    found = [_model(served) for served in roster.models.values()]
    for alias, target in roster.names.aliases.items():
        weights = {target: 1.0} if isinstance(target, str) else dict(target)
        first = roster.models[next(iter(weights))]
        found.append(_model(first) | {"id": alias, "alias_of": weights})
    return JsonReply({"object": "list", "data": found})


async def model(request: Request) -> Response:
    """Describe one model, by name or alias."""
    roster = service_of(request).roster
    name, pin = roster.names.find(request.path_params["name"], request_id(request))
    check_pin(name, pin, roster.models[name].sha256)
    return JsonReply(_model(roster.models[name]))


def _model(served: Served) -> dict[str, Any]:
    return {
        "id": served.name, "object": "model", "created": served.created, "owned_by": "cutaway",
        "root": served.config.model, "max_model_len": served.context, "context_length": served.context,
        "sha256": served.sha256 or None, "format": served.format or None, "state": served.state,
        "memory_bytes": served.plan.total if served.plan is not None else None,
        "chat": served.engine.template is not None if served.engine is not None else None,
        "tool_format": served.tool_format, "error": served.error or None,
    }  # fmt: skip
