"""Reading the query of a request under /x/."""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request

from cutaway.server.transport.errors import bad_request


def query_of(request: Request, known: Collection[str]) -> dict[str, str]:
    """The parameters by name. Raises ApiError: 400 for one that is not known."""
    query = dict(request.query_params)
    if wrong := sorted(query.keys() - set(known)):
        raise bad_request(f"{wrong[0]} is not a parameter here; known are {', '.join(sorted(known))}", wrong[0])
    return query


def digits(given: str) -> int | None:
    """A whole number from 0 on, of at most nine digits; None where it is not one."""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
