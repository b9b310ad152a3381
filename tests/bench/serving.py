"""A server of canned streams, for tests of clients of servers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Canned(ThreadingHTTPServer):
    """mode: "good", "refused" (429), "broken" (no [DONE]), "error" (an error event), "silent" (no text). heard: bodies
    and keys. most: the largest number of requests answered at the same time."""

    daemon_threads = True

    def __init__(self, mode: str = "good") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mode = mode
        self.heard: list[tuple[dict[str, Any], str]] = []
        self.now = self.most = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Canned

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._whole(200, {"data": [{"id": "canned"}] if self.server.mode != "empty" else []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.heard.append((body, self.headers.get("Authorization", "")))
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        if self.server.mode == "refused":
            self._whole(429, {"error": {"message": "too many"}})
        else:
            self.send_response(200)
            self.end_headers()
            for event in self._events(body["max_tokens"]):
                self.wfile.write(f"data: {event}\n\n".encode())
                self.wfile.flush()
                time.sleep(0.002)
        with self.server.lock:
            self.server.now -= 1

    def _events(self, tokens: int) -> Iterator[str]:
        mode = self.server.mode
        yield json.dumps({"choices": [{"delta": {"role": "assistant"}}]})
        if mode == "error":
            yield json.dumps({"error": {"message": "out of luck"}})
        for _ in range(0 if mode == "silent" else tokens):
            yield json.dumps({"choices": [{"delta": {"content": "x"}}]})
        if mode == "garbled":
            yield "{not json"
        yield json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}})
        if mode != "broken":
            yield "[DONE]"

    def _whole(self, status: int, value: object) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def canned(mode: str = "good") -> Iterator[Canned]:
    server = Canned(mode)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
