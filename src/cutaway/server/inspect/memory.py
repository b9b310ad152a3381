"""GET /x/memory: where the process's memory is, and what was refused or preempted for want of it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.engine import NotedPreemption, Status
from cutaway.server.inspect.access import check_admin, shown
from cutaway.server.inspect.views import page_bytes
from cutaway.server.models.served_model import Served
from cutaway.server.state import Service, service_of
from cutaway.xray.memory_view import LoadedModel, memory_view


async def show_memory(request: Request) -> Response:
    """Memory of the process by owner: predicted, measured, difference; refusals and preemptions. For its admin."""
    check_admin(request)
    service = service_of(request)
    models = [LoadedModel(name, served.engine) for name, served in _loaded(service)]
    view = await service.watching.run(lambda: memory_view(models))
    more = {
        "budget": {"total": service.roster.budget, "taken": service.roster.taken},
        "models": [_model_json(name, served) for name, served in service.roster.models.items()],
        "preemptions": [one for name, served in _loaded(service) for one in _preemptions(service, name, served)],
        "refusals": list(service.watching.refusals),
    }
    return shown(view | more)


def _loaded(service: Service) -> list[tuple[str, Any]]:
    return [(name, served) for name, served in service.roster.models.items() if served.engine is not None]


def _model_json(name: str, served: Served) -> dict[str, Any]:
    status = None if served.engine is None else served.engine.status()
    return {
        "model": name, "state": "failed" if served.dead else served.state, "error": served.error,
        "users": served.users, "running": status and status.running, "waiting": status and status.waiting,
        "preemptions": status and status.preemptions, "steps": status and status.steps,
        "step_seconds": status and round(status.busy, 3),
        "groups": [] if status is None or served.engine is None else _groups(status, page_bytes(served.engine)),
    }  # fmt: skip


def _groups(status: Status, sizes: list[int]) -> list[dict[str, Any]]:
    return [
        {"window": p.window, "page_bytes": size, "free": p.free, "held": p.held, "cached": p.cached}
        for p, size in zip(status.pages, sizes, strict=True)
    ]


def _preemptions(service: Service, name: str, served: Served) -> list[dict[str, Any]]:
    assert served.engine is not None
    return [preemption_json(one, name) for one in served.engine.watch.preemptions]


def preemption_json(one: NotedPreemption, model: str) -> dict[str, Any]:
    """Pages are counted per group of layers."""
    return {
        "at": one.at, "model": model, "step": one.step, "request": one.request, "gainer": one.gainer_name,
        "computed_tokens": one.computed, "pages_held": list(one.held), "granted_tokens": one.granted,
        "pages_needed": list(one.needed), "pages_available": list(one.available),
    }  # fmt: skip
