"""A caller's visit: its place among the admitted requests, and its hold on a model."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import ExitStack
from time import time_ns

from starlette.requests import Request

from cutaway.engine import Stream
from cutaway.server.models.pool import Lease
from cutaway.server.route import route_of
from cutaway.server.state import Service, caller, request_id
from cutaway.xray.owners import Owner


class Visit:
    """A caller's place and its hold on a model. Only `close` may release them.

    names: the request's names of sampling parameters, where they differ.
    """

    def __init__(self, service: Service, request: Request, lease: Lease, stack: ExitStack) -> None:
        self.service = service
        self.began: int = request.scope["cutaway.began"]
        self.entered = time_ns()
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
        """The key within which its prefixes are found. A cached prefix reveals that its prompt is known, by the number
        of cached tokens and by the time to the first token. A caller therefore finds only its own prefixes, unless
        the config shares them."""
        return (None if self.shares_prefixes else self.caller, salt)

    def owns(self, stream: Stream) -> None:
        """These answers are this caller's, for the views of answers that are being made."""
        ids = (answer.id for answer in stream.requests)
        self.service.watching.owners.add(self.model, ids, Owner(self.caller, self.id))

    def close(self) -> None:
        self._stack.close()
