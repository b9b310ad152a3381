"""GET /x/waterfalls: what requests waited for before their first token: the slowest of the last hour, the latest."""

from __future__ import annotations

from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from cutaway.server.inspect.access import not_yours, shown, viewer
from cutaway.server.inspect.views import number
from cutaway.server.state import service_of
from cutaway.xray.waterfall import LATEST, PARTS


async def show_waterfalls(request: Request) -> Response:
    """Parts of the time to the first token: the slowest requests and the latest, or those of `?request=`."""
    kept, sees = service_of(request).watching.waterfalls, viewer(request).may_see
    named, last = request.query_params.get("request"), number(request, "last", 16, LATEST)
    latest = [one.json() for one in islice(kept.latest(sees, named), last)]
    if named is not None and not latest:
        raise not_yours("request", named)
    slowest = [one.json() for one in kept.slowest(sees)] if named is None else []
    return shown({"parts": list(PARTS), "slowest": slowest[:last], "latest": latest})
