"""Connections that go wrong on the network: heads and bodies that never end, machines that vanish."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from cutaway.config import ServerConfig
from cutaway.server.launch import DEAD_PEER_MS, open_listener
from cutaway.server.transport import body
from cutaway.server.transport import connection as transport
from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, raw_request, running, until

pytestmark = pytest.mark.models


def connect(server: Running) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.settimeout(20)
    return connection


def test_a_head_that_never_ends_is_cut_off(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "HEAD_SECONDS", 0.5)
    with (
        running(config_for(smollm2_path)) as server,
        connect(server) as silent, connect(server) as slow, connect(server) as second,
    ):  # fmt: skip
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n")
        second.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert second.recv(65536).startswith(b"HTTP/1.1 200")
        second.sendall(b"GET /vers")  # the second request of a connection, too
        for connection in (silent, slow):
            assert connection.recv(65536) == b""
        while second.recv(65536):  # what is left of the first reply
            pass
        # A request whose head is there takes the time that it takes.
        reply = server.post(COMPLETIONS, prompt="x", max_tokens=30, ignore_eos=True)
        assert reply.status_code == 200


def test_a_body_that_never_ends_is_a_408(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.5)
    with running(config_for(smollm2_path)) as server, connect(server) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        began = time.monotonic()
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began >= 0.4
        server.idle("smol")


def test_connections_notice_a_machine_that_vanished() -> None:
    """No FIN comes from it: the kernel must ask. (docs/serving.md has how long that took; to try it needs root.)"""
    with open_listener(ServerConfig(port=0)) as listener, socket.create_connection(listener.getsockname()[:2]):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == DEAD_PEER_MS


def test_a_connection_that_is_reset_ends_its_request(smol: Running) -> None:
    connection = raw_request(smol, CHAT, {"messages": HELLO, "max_tokens": 300, "ignore_eos": True, "stream": True})
    until(lambda: smol.status("smol").running == 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close sends RST
    connection.close()
    smol.idle("smol")
