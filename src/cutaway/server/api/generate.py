"""From a request to its reply: the path that all generating routes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.server.api.sampling import Form, sampling_params
from cutaway.server.api.schemas import Choosing
from cutaway.server.generation.generation import Run
from cutaway.server.generation.prompt_input import Input
from cutaway.server.generation.respond import Teller, answer, entered
from cutaway.server.route import read_request
from cutaway.server.state import Service, service_of


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in the terms that all APIs share.

    answers: the number of answers in all. form: the API's equivalent of `response_format`. params: sampling parameters
    that the route sets itself; they take precedence. max_tokens: the default if neither the request nor the config has
    one. chosen: the object with the sampling fields, if that is not the request itself. warnings: about fields that the
    route ignored.
    """

    input: Input
    answers: int = 1
    form: Form | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    chosen: Choosing | None = None
    warnings: Sequence[str] = ()


async def generate(
    request: Request, ask: Callable[[Any], Asked], teller: Callable[[Run, Any], Teller],
    read: tuple[Any, list[str]] | None = None,
) -> Response:
    """Read and check the request, run it, and reply.

    ask: converts the route's fields; raises ApiError. teller: makes the object that formats the run. read: the fields
    and warnings, if the body has been read already.
    """  # fmt: skip
    service = service_of(request)
    fields, warnings = read if read is not None else await read_request(request)
    asked = ask(fields)
    chosen = asked.chosen or fields
    async with entered(request, service, chosen.model, asked.answers) as visit:
        served, engine = visit.lease.served, visit.lease.engine
        params, said, names = sampling_params(
            chosen, engine.defaults, service.config.limits, service.sampling, form=asked.form, **_params(asked, service)
        )
        visit.names |= names
        ready = await service.in_thread(asked.input.prepare, served, engine, params)
        visit.warnings += [*warnings, *asked.warnings, *said, *ready.warnings]
        run = Run(
            visit, ready.prompts, ready.params, reader=ready.reader, key=chosen.cache_salt, shorten=ready.shorten,
            clock=ready.clock,
        )
        return await answer(request, run, teller(run, fields), stream=bool(fields.stream))


def _params(asked: Asked, service: Service) -> dict[str, Any]:
    """The route's own parameters, with its default of max_tokens if the config has none."""
    if asked.max_tokens is None or "max_tokens" in service.sampling:
        return dict(asked.params)
    most = service.config.limits.tokens_per_request or asked.max_tokens
    return {"max_tokens": min(asked.max_tokens, most), **asked.params}
