"""Asking a running server for what it shows under /x/: found by its state file, or by an URL."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from cutaway.errors import CutawayError
from cutaway.xray.server_state import ServerState, admin_token, servers

VARIABLE = "CUTAWAY_API_KEY"
LONGEST = 2**29
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server to query. key: sent as a header, never in the URL, and to this server only."""

    url: str
    key: str | None = field(default=None, repr=False)

    def ask(
        self, path: str, query: Mapping[str, str | int | float | None] | None = None, body: Any = None,
        seconds: float = SECONDS,
    ) -> Any:
        """The JSON that it answers to GET, or to POST where there is a body. query: None values are left out.

        Raises CutawayError with the server's own code and words, or `server_not_found` where no server answers.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}{quote(path, safe='/')}{'?' + urlencode(given) if given else ''}"
        headers = {"accept": "application/json"} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["content-type"] = "application/json"
        try:
            with _OPENER.open(urllib.request.Request(url, data, headers), timeout=seconds) as reply:
                return _parsed(reply.read(LONGEST), self.url)
        except urllib.error.HTTPError as error:
            raise _told(error, self.url) from None
        except (OSError, HTTPException, ValueError) as error:  # URLError is an OSError
            raise _silent(error, self.url) from None

    def date(self, seconds: float = SECONDS) -> str | None:
        """The Date header of a reply, whatever its status; None: it has none. Raises as `ask`."""
        try:
            with _OPENER.open(urllib.request.Request(f"{self.url}/health"), timeout=seconds) as reply:
                return str(reply.headers["date"]) if reply.headers["date"] else None
        except urllib.error.HTTPError as error:
            with error:
                return error.headers["date"]
        except (OSError, HTTPException, ValueError) as error:
            raise _silent(error, self.url) from None


def target(url: str | None = None) -> Target:
    """The server at an URL, or the one that runs. Raises CutawayError where there is none, or several."""
    if url is not None:
        return _named(url)
    found = targets()
    if not found:
        raise CutawayError("no server of this user runs", hint="--url names one", code="server_not_found")
    if len(found) > 1:
        listed = ", ".join(one.url for one in found)
        raise CutawayError(f"several servers run: {listed}", hint="--url chooses one", code="server_not_found")
    return found[0]


def targets() -> list[Target]:
    """All servers of this user that run, the newest first."""
    return [Target(state.url, admin_token(state)) for state in servers() if state.alive]


def _named(url: str) -> Target:
    """The target of a URL: a server of this user is queried as its admin, any other with the key of the environment."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise CutawayError(f"{url!r} is not a URL such as http://127.0.0.1:8000", code="parameter_invalid")
    plain = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    ours = next((state for state in servers() if state.alive and is_at(state, plain)), None)
    token = admin_token(ours) if ours is not None else None
    return Target(plain, token or os.environ.get(VARIABLE) or None)


def is_at(state: ServerState, url: str) -> bool:
    """Whether this URL is that server's."""
    return url in (state.url, state.url.replace("//127.0.0.1:", "//localhost:"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key goes where it was sent, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def _parsed(raw: bytes, url: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise CutawayError(f"{url} does not answer as a cutaway server does", code="server_not_found") from None


def _silent(error: Exception, url: str) -> CutawayError:
    reason = getattr(error, "reason", error)
    return CutawayError(f"no server answers at {url}: {reason}", code="server_not_found")


def _told(error: urllib.error.HTTPError, url: str) -> CutawayError:
    """The error in the server's own words."""
    with error:
        try:
            told = json.loads(error.read(2**20))["error"]
            return CutawayError(str(told["message"]), code=str(told.get("code") or "error"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return CutawayError(f"{url} answers with status {error.code}", code="server_not_found")
