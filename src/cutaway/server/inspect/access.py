"""Access to the views under /x/: an admin sees everything, a caller with an API key sees its own requests.

An admin sends the token that the server wrote into a file of its own user (xray/server_state.py). Without that token
and without API keys every view is refused: an address, even a loopback one, does not identify a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from cutaway.server.generation.respond import JsonReply
from cutaway.server.transport.auth import AdminToken, Keys, given_key
from cutaway.server.transport.errors import ApiError, bad_request

ADMIN = "admin"
_SECRETS = frozenset({"key", "api_key", "apikey", "token", "access_token", "authorization"})


@dataclass(frozen=True, slots=True)
class Viewer:
    """The sender of a request under /x/. caller: its name in the records; admin: whether it sees everything."""

    caller: str
    admin: bool

    def may_see(self, owner: str) -> bool:
        """Whether it may see the requests of this caller."""
        return self.admin or owner == self.caller


def admit(connection: HTTPConnection, keys: Keys, token: AdminToken) -> str:
    """The name of the sender. Raises ApiError: 400 for a secret in the URL, 401."""
    if wrong := sorted(_SECRETS & {name.lower() for name in connection.query_params}):
        raise bad_request(f"{wrong[0]} does not belong into a URL; send it as Authorization: Bearer", wrong[0])
    if token.fits(given_key(connection)):
        return ADMIN
    if not keys:
        what = "the admin token of this server is needed: Authorization: Bearer TOKEN; `cutaway ps` knows where it is"
        raise ApiError(401, what, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
    return keys.caller(connection)


def viewer(request: Request) -> Viewer:
    """The sender of a request to a route under /x/."""
    name: str = request.scope["cutaway.caller"]
    return Viewer(name, name == ADMIN)


def check_admin(request: Request) -> None:
    """For views of the whole server. Raises ApiError: 403."""
    if not viewer(request).admin:
        raise ApiError(403, "only the admin of this server may see this", code="admin_only")


def not_yours(what: str, name: str) -> ApiError:
    """The same error for what does not exist and for what belongs to another caller, so that it reveals neither."""
    return ApiError(404, f"there is no {what} {name[:100]!r}", code="record_not_found")


def shown(value: Any, status: int = 200) -> Response:
    """A reply that no cache keeps."""
    return JsonReply(value, status, {"cache-control": "no-store"})
