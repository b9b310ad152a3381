"""`cutaway serve` with a log that cannot be written: answers, streams and the shutdown are unaffected."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from server.serving import CHAT, COMPLETIONS, HELLO

pytestmark = pytest.mark.models


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def descriptor(kind: str) -> Iterator[int]:
    """A standard error: on a full disk; of a reader that has gone; of one that stands still."""
    if kind == "full disk":
        with Path("/dev/full").open("w") as full:
            yield full.fileno()
        return
    reading, writing = os.pipe()
    if kind == "no reader":
        os.close(reading)
    yield writing
    os.close(writing)
    if kind == "still reader":
        os.close(reading)


@pytest.mark.parametrize("kind", ["full disk", "no reader", "still reader"])
def test_answers_go_on(smollm2_path: Path, kind: str) -> None:
    port = free_port()
    command = [sys.executable, "-m", "cutaway", "serve", str(smollm2_path), "--port", str(port)]
    with descriptor(kind) as stderr:
        program = subprocess.Popen([*command, "--context", "512"], stderr=stderr, stdout=stderr)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                wait_ready(client)
                for _ in range(600):  # more lines than a pipe holds
                    assert client.get("/nowhere").status_code == 404
                invalid_request(port)
                ask_everything(client)
                page = client.get("/metrics").text
                dropped = float(page.split("\ncutaway:log_lines_dropped_total ")[1].split()[0])
                assert (dropped > 600) == (kind != "still reader")
                program.send_signal(signal.SIGTERM)
                assert program.wait(30) == 0
        finally:
            program.kill()
            program.wait()


def wait_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("not ready")


def invalid_request(port: int) -> None:
    """uvicorn logs it by itself."""
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"no HTTP at all\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 400")


def ask_everything(client: httpx.Client) -> None:
    fields = {"messages": HELLO, "max_tokens": 4, "temperature": 0, "ignore_eos": True}
    reply = client.post(CHAT, json=fields)
    assert reply.status_code == 200 and reply.json()["usage"]["completion_tokens"] == 4
    with client.stream("POST", CHAT, json=fields | {"stream": True}) as stream:
        assert [line for line in stream.iter_lines() if line][-1] == "data: [DONE]"
    assert client.post(COMPLETIONS, json={"prompt": 5.5}).status_code == 400
    assert client.get("/v1/models/other").status_code == 404
    assert client.get("/health").status_code == 200
