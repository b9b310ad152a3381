"""The table of routes under /x/: a new one is its file, and a line here. `access.py` says who may see what."""

from __future__ import annotations

from cutaway.server.inspect import (
    doctor,
    explain,
    live,
    memory,
    misses,
    request_views,
    requests,
    server,
    views,
    waterfalls,
)
from cutaway.server.route import Route

INSPECT_ROUTES = (
    Route("GET", "/x/access", server.show_access),
    Route("GET", "/x/server", server.show_server),
    Route("GET", "/x/requests", requests.list_requests),
    Route("GET", "/x/requests/{id}", requests.show_request),
    Route("GET", "/x/requests/{id}/explain", explain.explain_request),
    Route("GET", "/x/requests/{id}/prompt", request_views.show_prompt),
    Route("GET", "/x/requests/{id}/trace", request_views.show_trace),
    Route("GET", "/x/requests/{id}/miss", misses.show_miss),
    Route("GET", "/x/memory", memory.show_memory),
    Route("GET", "/x/pages", views.show_pages),
    Route("GET", "/x/steps", views.show_steps),
    Route("GET", "/x/live", live.show_live),
    Route("GET", "/x/waterfalls", waterfalls.show_waterfalls),
    Route("GET", "/x/doctor", doctor.show_doctor),
)
