"""GET /x/access and /x/server: who one is here, and what this server is."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import cutaway
from cutaway.server.inspect.access import check_admin, shown, viewer
from cutaway.server.state import Service, service_of


async def show_access(request: Request) -> Response:
    """Who the key of this request is: the admin or a caller with requests of its own."""
    return shown(asdict(viewer(request)))


async def show_server(request: Request) -> Response:
    """This server: process, start, models. For its admin."""
    check_admin(request)
    return shown(server_json(service_of(request)))


def server_json(service: Service) -> dict[str, Any]:
    """began: seconds since 1970; models: name to state."""
    return {
        "pid": os.getpid(),
        "version": cutaway.__version__,
        "began": service.began,
        "models": {name: "failed" if m.dead else m.state for name, m in service.roster.models.items()},
        "in_flight": service.admission.in_flight,
    }
