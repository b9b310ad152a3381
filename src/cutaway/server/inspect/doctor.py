"""GET /x/doctor: what is wrong with the machine, the build and the environment of this server."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cutaway.server.inspect.access import check_admin, shown
from cutaway.server.state import service_of
from cutaway.xray.doctor.checks import MACHINE, examination_json, examine
from cutaway.xray.doctor.subject import Subject


async def show_doctor(request: Request) -> Response:
    """What is wrong with this server's machine, build and environment, with evidence and remedy. For its admin."""
    check_admin(request)
    found = await service_of(request).watching.run(lambda: examine(Subject(), MACHINE))
    return shown(examination_json(found))
