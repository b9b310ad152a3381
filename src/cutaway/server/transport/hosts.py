"""Checks the names under which the server is addressed, and which web pages may use it.

A browser lets any page send requests to any address, including this machine. Such a request has an Origin, and one
whose body is not JSON is sent without a preflight; therefore a foreign Origin is refused, with or without a preflight.
A page that makes its own name point to this machine (DNS rebinding) has no foreign Origin but a foreign Host; therefore
a server on a loopback address accepts only loopback names. Names are compared according to RFC 9110 and RFC 3986: case,
port and a trailing dot make no difference.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from cutaway.config import ServerConfig
from cutaway.server.transport.errors import ApiError

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\]\\]+)(?::(\d{0,5}))?", re.ASCII)
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.ASCII)
_SCHEME = re.compile(rb"https?://", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Whether a host, as a name or an address without brackets, is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Hosts:
    """Checks the Host and Origin of each request. guarded: whether the accepted hosts are limited."""

    def __init__(self, config: ServerConfig) -> None:
        allowed = {name.lower().strip("[]").rstrip(".") for name in config.allowed_hosts}
        self.guarded = "*" not in allowed and (is_loopback(config.host) or bool(allowed))
        self._suffixes = tuple(name[1:] for name in allowed if name.startswith("*."))
        self._names = allowed | {config.host.lower()}
        self._origins = frozenset(config.cors_origins)

    def check(self, scope: Scope, *, private: bool = False) -> None:
        """Convert an absolute target to the usual form, and raise ApiError (400, 403, 415) if the request is not
        allowed.

        private: web pages of other origins are never allowed, a Host is always required and must be known if it is a
        name, and bodies must be JSON.
        """
        headers = Headers(scope=scope)
        named = headers.getlist("host")
        target: bytes = scope.get("raw_path") or b""
        if _SCHEME.match(target):
            named = [_relative(scope)]  # which takes precedence over the header
        if private and len(named) != 1:
            raise ApiError(400, "one Host must be named", code="host_not_allowed")
        for host in named if self.guarded or private else ():
            if self.guarded or not _is_address(host):  # a page cannot make an address its own
                self._check_host(host)
        origin = headers.get("origin")
        if origin is not None:
            self._check_origin(origin, named, frozenset() if private else self._origins)
        if private or origin is not None:
            self._check_body(headers)

    def _check_host(self, said: str) -> None:
        host, _ = _parsed(said)
        if host is None or not (is_loopback(host) or host in self._names or host.endswith(self._suffixes or ("\0",))):
            raise ApiError(
                403, f"this server does not answer to the host {said[:100]!r}; server.allowed_hosts in the config can "
                "allow it", code="host_not_allowed",
            )  # fmt: skip

    def _check_origin(self, origin: str, named: list[str], allowed: frozenset[str]) -> None:
        if "*" in allowed or origin in allowed:
            return
        theirs = _parsed(urlsplit(origin).netloc) if "://" in origin else (None, "")
        if theirs[0] is None or theirs not in [_parsed(host) for host in named]:
            raise ApiError(
                403, f"web pages of {origin[:100]!r} may not use this server; allow them with --cors-origin, or with "
                "server.cors_origins in the config", code="origin_not_allowed",
            )  # fmt: skip

    def _check_body(self, headers: Headers) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        if not empty and not _JSON.fullmatch(kind):
            raise ApiError(
                415, f"the body must be sent as application/json, not as {kind or 'nothing named'!r}",
                code="content_type_unsupported",
            )  # fmt: skip


def _is_address(authority: str) -> bool:
    host, _ = _parsed(authority)
    try:
        return host is not None and bool(ip_address(host))
    except ValueError:
        return False


def inspects(scope: Scope) -> bool:
    """Whether a request is for a path under /x/, also by an absolute target."""
    path: str = scope["path"]
    if _SCHEME.match(path.encode()):
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path == "/x" or path.startswith("/x/")


def _parsed(authority: str) -> tuple[str | None, str]:
    """Host and port of `host:port`, with the host in the form that is compared; None if it is not valid."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return None, ""
    return found[1].strip("[]").lower().removesuffix("."), found[2] or ""


def _relative(scope: Scope) -> str:
    """The authority of an absolute target (RFC 9112, 3.2.2), which is removed from the scope's path."""
    raw: bytes = scope["raw_path"]
    authority, slash, rest = raw.partition(b"://")[2].partition(b"/")
    scope["raw_path"] = slash + rest or b"/"
    path: str = scope["path"]
    after = path.partition("://")[2].partition("/")
    scope["path"] = after[1] + after[2] or "/"
    return authority.decode("latin-1")
