"""The formats of an API that every route needs: the events of a stream, its end, and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutaway.server.transport.errors import ApiError
from cutaway.server.transport.sse import DONE, KEEP_ALIVE, sse, to_json

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format of one API.

    event: an event of a stream as bytes. error: the body of a failed request, with the request's id. error_event: the
    same within a stream, which then ends. done: the last bytes of a stream. keep_alive: what is sent during a long
    pause, if the format allows it. resumable: whether events can have ids. namespace: the prefix of unknown paths whose
    errors also have this format.
    """

    event: Callable[[Event], bytes]
    error: Callable[[ApiError, str], Event]
    error_event: Callable[[ApiError, str], bytes]
    done: bytes = b""
    media_type: str = "text/event-stream"
    keep_alive: bytes = KEEP_ALIVE
    resumable: bool = True
    namespace: str = "/"


def _named(event: Event) -> bytes:
    return sse(event, event.get("type"))


OPENAI = Dialect(
    event=sse,
    error=lambda error, _id: error.body(),
    error_event=lambda error, _id: sse(error.body()),
    done=DONE,
)
RESPONSES = Dialect(
    event=_named,
    error=lambda error, _id: error.body(),
    error_event=lambda error, _id: _named({"type": "error", **error.body()}),
)
ANTHROPIC = Dialect(
    event=_named,
    error=ApiError.anthropic_body,
    error_event=lambda error, id: _named(error.anthropic_body(id)),
    namespace="/v1/messages",
)


def _line(event: Event) -> bytes:
    return to_json(event) + b"\n"


OLLAMA = Dialect(
    event=_line,
    error=lambda error, _id: {"error": error.message},
    error_event=lambda error, _id: _line({"error": error.message}),
    media_type="application/x-ndjson",
    keep_alive=b"",  # every line must be an object
    resumable=False,
    namespace="/api/",
)
LLAMA_CPP = Dialect(
    event=sse,
    error=lambda error, _id: {"error": {"code": error.status, "message": error.message, "type": error.type}},
    error_event=lambda error, _id: sse(
        {"error": {"code": error.status, "message": error.message, "type": error.type}}
    ),
    namespace="/infill",
)
