"""Clients whose HTTP is at the edge of what is allowed, or beyond it, over real sockets."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, HELLO, Running, until

pytestmark = pytest.mark.models


def connect(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def everything(connection: socket.socket) -> bytes:
    """Until the server closes."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def reply_of(connection: socket.socket) -> bytes:
    """One reply, of a connection that stays open."""
    reply = b""
    while b"\r\n\r\n" not in reply:
        part = connection.recv(65536)
        assert part, reply
        reply += part
    head, _, body = reply.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head)
    while found is not None and len(body) < int(found[1]):
        body += connection.recv(65536)
    return head


def error_of(reply: bytes) -> tuple[int, str]:
    """Status and code of an error in the API's own shape."""
    head, _, body = reply.partition(b"\r\n\r\n")
    assert b"application/json" in head and b"x-request-id: " in head and b"connection: close" in head.lower()
    error = json.loads(body)["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    return int(head.split()[1]), error["code"]


FIELDS_OF_HEAD = b"".join(b"x-%d: %s\r\n" % (i, b"v" * 500) for i in range(80))
LONG_HEAD = b"GET /version HTTP/1.1\r\nHost: localhost\r\n" + FIELDS_OF_HEAD
LONG_LINE = b"GET /version?" + b"x" * 200_000


@pytest.mark.parametrize("size", [100_000_000, 4000, 997])
@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (LONG_HEAD, (431, "head_too_large")),
        (LONG_HEAD + b"\r\n", (431, "head_too_large")),
        (LONG_LINE, (414, "uri_too_long")),
        (LONG_LINE + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (414, "uri_too_long")),
    ],
)
def test_a_head_that_is_too_long(smol: Running, sent: bytes, expected: tuple[int, str], size: int) -> None:
    """In one packet and in many; the answer arrives though the client is still sending."""
    with connect(smol) as connection:
        for start in range(0, len(sent), size):
            connection.sendall(sent[start : start + size])
            if size < len(sent):
                time.sleep(0.001)
        assert error_of(everything(connection)) == expected


def test_a_head_up_to_the_limit_and_many_on_one_connection(smol: Running) -> None:
    with connect(smol) as connection:
        for number in range(20):
            filler = b"x: %s\r\n" % (b"v" * (700 * number))
            sent = b"GET /version HTTP/1.1\r\nHost: localhost\r\n" + filler + b"\r\n"
            for start in range(0, len(sent), 5000):
                connection.sendall(sent[start : start + 5000])
            assert reply_of(connection).startswith(b"HTTP/1.1 200"), number


@pytest.mark.parametrize(
    "sent",
    [b"no HTTP\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
     b"GET /version HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_is_a_400_in_the_apis_shape(smol: Running, sent: bytes) -> None:
    with connect(smol) as connection:
        connection.sendall(sent)
        assert error_of(everything(connection)) == (400, "http_invalid")


@pytest.mark.parametrize(("path", "status"), [(CHAT, 413), ("/nowhere", 404)])
@pytest.mark.parametrize("chunked", [True, False])
def test_an_upload_without_end_is_closed(smol: Running, path: str, status: int, chunked: bool) -> None:
    kind = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 1000000000"
    part = b"x" * 65536
    part = b"10000\r\n" + part + b"\r\n" if chunked else part
    with connect(smol) as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % (path.encode(), kind))
        sent, began = 0, time.monotonic()
        with pytest.raises(ConnectionError):
            while sent < 100 * 2**20 and time.monotonic() - began < 30:
                connection.sendall(part)
                sent += len(part)
        assert sent < 30 * 2**20
    assert status in {entry.get("status") for entry in smol.log()[-3:]}


def test_a_small_body_that_nobody_reads_keeps_the_connection(smol: Running) -> None:
    with connect(smol) as connection:
        for _ in range(3):
            connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n")
            assert reply_of(connection).startswith(b"HTTP/1.1 404")
            connection.sendall(b"x" * 3000)
        time.sleep(1.2)
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert reply_of(connection).startswith(b"HTTP/1.1 200")


def test_a_body_that_stops_after_its_answer_is_closed(smol: Running) -> None:
    with connect(smol) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\nxx")
        assert everything(connection).startswith(b"HTTP/1.1 404")


# --- a client that shuts down its writing side ------------------------------------------------------------------------
def half_closed(server: Running, path: str, fields: dict[str, Any]) -> socket.socket:
    body = json.dumps(fields).encode()
    connection = connect(server)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    connection.shutdown(socket.SHUT_WR)
    return connection


FIELDS: dict[str, Any] = {"prompt": list(range(100, 400)), "max_tokens": 20, "ignore_eos": True, "temperature": 0}


@pytest.mark.parametrize("stream", [False, True])
def test_it_is_answered(smol: Running, stream: bool) -> None:
    with half_closed(smol, COMPLETIONS, FIELDS | {"stream": stream}) as connection:
        reply = everything(connection)
    last = reply[reply.rindex(b"HTTP/1.1 200") :]
    assert reply.startswith(b"HTTP/1.1 100 Continue\r\n\r\n") or stream
    if stream:
        assert b"data: [DONE]\n\n" in last
    else:
        assert json.loads(last.partition(b"\r\n\r\n")[2])["usage"]["completion_tokens"] == 20
    with half_closed(smol, CHAT, {"messages": HELLO, "max_tokens": 0.5}) as connection:
        assert b"HTTP/1.1 400" in everything(connection)


@pytest.mark.parametrize("stream", [False, True])
def test_and_one_that_leaves_then_is_noticed(smol: Running, stream: bool) -> None:
    connection = half_closed(smol, COMPLETIONS, FIELDS | {"stream": stream, "max_tokens": 100})
    until(lambda: smol.status("smol").running == 1)
    connection.close()
    steps = smol.status("smol").steps
    until(lambda: smol.status("smol").running == 0)
    assert smol.status("smol").steps - steps <= 60
    smol.idle("smol")


def test_one_that_ends_within_its_body_is_gone(smol: Running) -> None:
    with connect(smol) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
        assert not everything(connection).startswith(b"HTTP/1.1 200")
