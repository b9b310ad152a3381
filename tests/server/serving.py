"""A server over a real socket, in a thread of the test's own process, so that a test can look into it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from cutaway.config import Config, LoggingConfig, ModelConfig, ServerConfig
from cutaway.engine import EngineCore, Status
from cutaway.server.launch import make_server, open_listener
from cutaway.server.state import Service
from cutaway.trace import NULL, Recorder

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HELLO = [{"role": "user", "content": "Say hello."}]


def bearer(key: str) -> dict[str, str]:
    """The headers of a request with this key."""
    return {"authorization": f"Bearer {key}"}


class Running:
    """A server that runs. url: where; log: what it has logged, as JSON lines."""

    def __init__(self, config: Config, recorder: Recorder = NULL) -> None:
        self._stream = io.StringIO()
        self.listener = open_listener(config.server)
        self.server = make_server(config, self._stream, recorder)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=120)
        self._thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([self.listener])))

    @property
    def service(self) -> Service:
        return self.server.service

    @property
    def stream(self) -> io.StringIO:
        """The log's, with everything that was logged so far."""
        assert self.service.log.flush(10)
        return self._stream

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive(), "the server does not end"

    def wait_ready(self) -> None:
        until(lambda: self.client.get("/health").status_code == 200 or self.service.roster.failed is not None, 60)
        assert self.service.roster.failed is None, self.service.roster.failed

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    # --- asking -----------------------------------------------------------------------------------------------------
    def post(self, path: str, body: Any = None, **fields: Any) -> httpx.Response:
        return self.client.post(path, json=fields if body is None else body)

    def ok(self, path: str, **fields: Any) -> Any:
        reply = self.post(path, **fields)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def refused(self, path: str, status: int = 400, **fields: Any) -> Any:
        reply = self.post(path, **fields)
        assert reply.status_code == status, (reply.status_code, reply.text[:300])
        return reply.json()["error"]

    def chunks(self, path: str, **fields: Any) -> list[Any]:
        """The events of a stream, which must end with [DONE]."""
        events = self.events(path, **fields)
        assert events[-1] == "[DONE]", events[-1]
        return [json.loads(event) for event in events[:-1]]

    def events(self, path: str, **fields: Any) -> list[str]:
        with self.client.stream("POST", path, json=fields | {"stream": True}) as reply:
            assert reply.status_code == 200, reply.read()
            assert reply.headers["content-type"].startswith("text/event-stream")
            return [line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: ")]

    # --- looking ----------------------------------------------------------------------------------------------------
    def core(self, model: str) -> EngineCore:
        engine = self.service.roster.models[model].engine
        assert engine is not None
        return engine._core

    def status(self, model: str) -> Status:
        engine = self.service.roster.models[model].engine
        assert engine is not None
        return engine.status()

    def idle(self, model: str, seconds: float = 20.0) -> None:
        """Wait until nothing runs, and check the ledger."""
        until(
            lambda: self.status(model).running == self.status(model).waiting == self.service.admission.in_flight == 0,
            seconds,
        )
        assert all(pages.held == 0 for pages in self.status(model).pages)
        self.core(model).pages.check()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> float:
    """Wait for it. Returns the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not so within {seconds} s"
        time.sleep(0.01)
    return time.monotonic() - began


def config_for(path: Path, **server: Any) -> Config:
    return Config(
        models=(ModelConfig(str(path), name="smol", context=512, contexts=3),),
        server=ServerConfig(port=0, **server),
        logging=LoggingConfig(format="json"),
    )


@contextlib.contextmanager
def running(config: Config, *, wait: bool = True, recorder: Recorder = NULL) -> Iterator[Running]:
    made = Running(replace(config, server=replace(config.server, port=0)), recorder)
    made.start()
    try:
        if wait:
            made.wait_ready()
        yield made
    finally:
        made.stop()


def raw_request(
    server: Running, path: str, fields: dict[str, Any], *, receive_buffer: int | None = None
) -> socket.socket:
    """A connection on which a request was sent and nothing was read yet."""
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    connection = socket.socket()
    if receive_buffer is not None:  # before it connects: the window is agreed on then
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(head.encode() + body)
    return connection
