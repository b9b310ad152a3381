"""An HTTP connection, with additions to uvicorn: limits on the size and time of heads, errors in the API's format,
uploads that are not read, and clients that shut down their writing side but still read.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import uuid

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from cutaway.server.transport.errors import ApiError

HEAD_SECONDS = 30.0  # for a complete head; a slower client would hold a connection for nothing
MOST_HEAD = 16 * 1024  # bytes of a head
MOST_LINE = 8 * 1024  # bytes of its first line
LINGER_SECONDS = 1.0  # for data that a client still sends after the answer; a reset
# would destroy the answer. At most ten times that in total.
LINGER_BYTES = 2**20
PROBE_SECONDS = 5.0  # between tests whether a client with a closed writing side still reads
LOOK_SECONDS = 0.02  # maximum time between checks for the result (a nearby client answers within 1 ms)
_END = re.compile(rb"\r?\n\r?\n")  # of a head, as h11 reads it


class Connection(H11Protocol):
    """A connection of the server."""

    _late: asyncio.TimerHandle | None = None
    _closing: asyncio.TimerHandle | None = None
    _listening: asyncio.Task[None] | None = None
    _refused = False  # answered before a request was read; incoming data is dropped
    _unread = 0  # bytes received after the answer

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._head = bytearray()

    # --- what uvicorn calls -----------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        if self._drops(len(data)) or self._too_long(data):
            return
        super().data_received(data)
        self._wait_for_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more. Returns whether the connection stays open for the answer."""
        if self._listening is not None:
            return True
        if not self._busy or self.cycle.more_body or self.scope["http_version"] == "1.0":
            return False
        self._listening = self.loop.create_task(self._ask_whether_it_listens())
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()
        for pending in (self._closing, self._listening):
            if pending is not None:
                pending.cancel()

    def on_response_complete(self) -> None:
        if self._listening is not None:
            self.transport.close()
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._linger()

    def send_400_response(self, msg: str) -> None:
        """Reply to data that h11 could not parse; its exception is being handled."""
        error = sys.exc_info()[1]
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._refuse(_head_too_long(self._head))
        else:
            why = f": {error}" if error is not None else ""
            self._refuse(ApiError(400, f"the request is not valid HTTP{why}", code="http_invalid"))

    # --- heads ------------------------------------------------------------------------------------------------------
    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _too_long(self, data: bytes) -> bool:
        """Whether the head exceeds the limits; if so, the client gets an error."""
        if self._busy or self.conn.their_state is not h11.IDLE:
            self._head.clear()
            return False
        self._head += data[: MOST_HEAD + 1]
        end = _END.search(self._head)
        length = len(self._head) if end is None else end.end()
        if length > MOST_HEAD or _line(self._head) > MOST_LINE:
            self._refuse(_head_too_long(self._head))
            return True
        if end is not None:
            self._head.clear()
        return False

    def _refuse(self, error: ApiError) -> None:
        """Reply to data that is not a request, and close."""
        self._refused = True
        self._stop_waiting()
        body = json.dumps(error.body()).encode()
        head = (
            f"HTTP/1.1 {error.status} {_PHRASES[error.status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {uuid.uuid4().hex}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._linger()

    def _wait_for_head(self) -> None:
        if self._busy:
            self._stop_waiting()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._late = None
        if not self._busy:
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    # --- uploads that are not read ----------------------------------------------------------------------------------
    def _drops(self, size: int) -> bool:
        """Whether received data belongs to a request that has been answered. Too much of it closes the connection."""
        if self._closing is None:
            return self._refused
        self._unread += size
        if self._unread > LINGER_BYTES:
            self.transport.close()
        return self._refused or self.transport.is_closing()

    def _linger(self) -> None:
        """Close soon, unless the rest of the body arrives first."""
        if self._closing is None:
            self._unread = 0
            self._closing = self.loop.call_later(LINGER_SECONDS, self._end_lingering, 1, 0)

    def _end_lingering(self, turn: int, before: int) -> None:
        self._closing = None
        if self._unread > before and turn < 10:  # it is still sending
            self._closing = self.loop.call_later(LINGER_SECONDS, self._end_lingering, turn + 1, self._unread)
        elif self._refused or (not self._busy and self.conn.their_state is h11.SEND_BODY):
            self.transport.close()

    # --- clients that have sent all ---------------------------------------------------------------------------------
    async def _ask_whether_it_listens(self) -> None:
        """A client that has disconnected looks like one that has only shut down its writing side, until data is sent to
        it: then the system of a disconnected client resets the connection. Interim responses are allowed at any time
        before the answer (RFC 9110, 15.2), comments at any time within a stream."""
        connection = self.transport.get_extra_info("socket")
        while self._busy and not self.transport.is_closing():
            self._probe()
            waited, pause = 0.0, 0.001
            while waited < PROBE_SECONDS:
                await asyncio.sleep(pause)
                waited, pause = waited + pause, min(2 * pause, LOOK_SECONDS)
                if not self._busy:
                    return
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    self.transport.abort()
                    return

    def _probe(self) -> None:
        if not self.cycle.response_started:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif self.conn.our_state is h11.SEND_BODY:
            self.transport.write(self.conn.send(h11.Data(data=b": \n\n")) or b"")


_PHRASES = {400: "Bad Request", 414: "URI Too Long", 431: "Request Header Fields Too Large"}


def _line(head: bytes | bytearray) -> int:
    """The length of the first line, as far as it has been received."""
    end = head.find(b"\n")
    return end if end >= 0 else len(head)


def _head_too_long(head: bytes | bytearray) -> ApiError:
    if _line(head) > MOST_LINE:
        return ApiError(414, f"the request's first line is longer than {MOST_LINE} bytes", code="uri_too_long")
    return ApiError(431, f"the request's head is longer than {MOST_HEAD} bytes", code="head_too_large")
