"""GET /x/requests/{id}/miss: why the prompt of a request was not found in the prefix cache to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.server.inspect.access import shown
from cutaway.server.inspect.requests import engine_of, found
from cutaway.server.state import Service, service_of
from cutaway.xray.prefix_miss import miss_of
from cutaway.xray.record import RequestRecord

COMPARED = 64
"""Earlier records of the same caller that a prompt is compared with, the latest first."""


async def show_miss(request: Request) -> Response:
    """Where the match of a prompt in the prefix cache ended: both sides in words, cause, price, and what avoids it."""
    service = service_of(request)
    record = await found(request, request.path_params["id"])
    # miss: null where everything was found that can be; unknown: why nothing is known.
    head: dict[str, Any] = {
        "record": "prefix_miss", "request": record.request, "id": record.id, "model": record.system.model,
        "prompt_tokens": record.prompt_tokens, "cached_tokens": record.figures.cached, "miss": None, "unknown": None,
    }  # fmt: skip
    served = service.roster.models.get(record.system.model)
    if record.prompt_ids is None:
        return shown(head | {"unknown": "the server keeps figures only, and no token ids"})
    if served is None or served.engine is None or served.sha256 != record.system.sha256:
        return shown(head | {"unknown": "the model that answered is not loaded any more"})
    shared = service.config.server.share_prefixes
    async with engine_of(request, record) as engine:  # whose vocabulary lies in its file
        earlier = _earlier(service, record)
        miss = await service.in_thread(miss_of, record, earlier, engine.tokenizer.decode, shared)
    return shown(head | {"miss": None if miss is None else miss.json()})


def _earlier(service: Service, record: RequestRecord) -> Iterator[RequestRecord]:
    """Earlier requests of the same caller to the same model, the latest first: no other caller's text is compared."""
    heads = (
        head for head in service.flights.heads()
        if head.caller == record.caller and head.began < record.began and head.system.sha256 == record.system.sha256
    )  # fmt: skip
    same: Callable[[str], bool] = record.caller.__eq__
    whole = (service.flights.find(head.id, same) for head in islice(heads, COMPARED))
    return (one for one in whole if one is not None)
