"""A caller's visit: its place among the requests that are let in, and its hold on a model."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import ExitStack

from starlette.requests import Request

from cutaway.server.models.pool import Lease
from cutaway.server.route import route_of
from cutaway.server.state import Service, caller, request_id


class Visit:
    """A caller's place and its hold on a model; `close` gives both back. Nothing else may.

    names: what the request calls our parameters, where it calls them otherwise.
    """

    def __init__(self, service: Service, request: Request, lease: Lease, stack: ExitStack) -> None:
        self.service = service
        self.began: int = request.scope["cutaway.began"]
        self.headers = request.headers
        self.id = request_id(request)
        self.path = request.url.path
        self.caller = caller(request)
        self.lease = lease
        self.warnings: list[str] = []
        self.route = route_of(request)
        self.names = self.route.names
        self._stack = stack

    @classmethod
    async def enter(cls, request: Request, service: Service, model: str | None, answers: int) -> Visit:
        """Raises ApiError: 404, 429, 503."""
        with ExitStack() as stack:
            lease = await service.roster.take(model, request_id(request))
            stack.callback(service.roster.give, lease)
            at_once = lease.served.config.max_requests or 1
            stack.enter_context(service.admission.enter(caller(request), lease.served.name, answers, at_once))
            return cls(service, request, lease, stack.pop_all())

    @property
    def model(self) -> str:
        return self.lease.served.name

    @property
    def shares_prefixes(self) -> bool:
        """Whether its prompts are compared with those of other callers."""
        return self.service.config.server.share_prefixes

    def prefix_key(self, salt: str | None) -> Hashable:
        """Within which its prefixes are found. A prefix that is found is a prompt that is known: by the cached tokens,
        by the time to the first token. So a caller finds its own only, unless the config says otherwise."""
        return (None if self.shares_prefixes else self.caller, salt)

    def close(self) -> None:
        self._stack.close()
