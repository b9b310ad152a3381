"""Foreign names and foreign pages: what a browser can be made to send, and what comes of it."""

from __future__ import annotations

import asyncio
import io
import socket
from typing import Any

import httpx
import pytest

from cutaway.config import Config, LoggingConfig, ModelConfig, ServerConfig
from cutaway.server import create_app
from cutaway.server.routes import ROUTES
from cutaway.server.transport.errors import ApiError
from cutaway.server.transport.hosts import Hosts, is_loopback
from server.serving import Running

EVIL = "http://evil.example"


def verdict(config: ServerConfig, host: str | None = "localhost:8000", target: str = "/v1", **headers: str) -> Any:
    """None if a request passes, else its status and code."""
    named = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    if host is not None:
        named.insert(0, (b"host", host.encode("latin-1")))
    scope = {"type": "http", "method": "POST", "headers": named, "path": target, "raw_path": target.encode()}
    try:
        Hosts(config).check(scope)
    except ApiError as error:
        return error.status, error.code
    return None


LOOPBACK = ServerConfig()
NOT_HOST, NOT_ORIGIN = (403, "host_not_allowed"), (403, "origin_not_allowed")


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "LOCALHOST:8000", "LocalHost.", "localhost.:8000", "127.0.0.1", "127.0.0.1:9",
     "127.8.9.1:8000", "[::1]", "[::1]:8000", "[0:0:0:0:0:0:0:1]:8000", "localhost:", None],
)  # fmt: skip
def test_a_loopback_address_answers_to_its_own_names(host: str | None) -> None:
    for bound in ("127.0.0.1", "localhost", "::1", "127.0.0.2"):
        assert verdict(ServerConfig(host=bound), host) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example.", "",
     "localhost@evil.example", "evil.example@localhost", "localhost evil.example", "localhost/evil", "0.0.0.0",
     "0.0.0.0:8000", "[::]", "::1", "192.168.0.1", "169.254.1.1", "localhost..", "localhost:8000:1", "localhost:x",
     "[::1", "[evil.example]", "evil\u00e9.example", "localhost:8000, evil.example", "localhost\t", "*", "2130706433",
     "[::ffff:10.0.0.1]", "localhost#", "localhost\\evil"],
)  # fmt: skip
def test_and_to_no_other(host: str) -> None:
    assert verdict(LOOPBACK, host) == NOT_HOST


def test_the_target_of_an_absolute_request_counts_and_not_the_header() -> None:
    assert verdict(LOOPBACK, "localhost", f"{EVIL}/v1/models") == NOT_HOST
    assert verdict(LOOPBACK, "localhost", "HTTP://evil.example/v1/models") == NOT_HOST
    assert verdict(LOOPBACK, "localhost", "http://localhost@evil.example/") == NOT_HOST
    assert verdict(LOOPBACK, "evil.example", "http://LOCALHOST:8000/v1/models") is None
    assert verdict(LOOPBACK, "localhost", "https:///v1/models") == NOT_HOST


def test_a_list_allows_more() -> None:
    listed = ServerConfig(allowed_hosts=("LLM.example.com", "*.inner.example", "[fd00::1]"))
    for host in ("llm.example.com:443", "a.b.inner.example", "[fd00::1]:8000", "localhost"):
        assert verdict(listed, host) is None, host
    for host in ("x.llm.example.com", "inner.example", "evilinner.example", "[fd00::2]"):
        assert verdict(listed, host) == NOT_HOST, host
    assert verdict(ServerConfig(allowed_hosts=("*",)), "evil.example") is None
    everywhere = ServerConfig(host="0.0.0.0")
    assert verdict(everywhere, "any.example") is None, "its names cannot be known"
    named = ServerConfig(host="0.0.0.0", allowed_hosts=("llm.example.com",))
    assert verdict(named, "llm.example.com") is None and verdict(named, "evil.example") == NOT_HOST
    assert verdict(named, "127.0.0.1") is None, "a health check of its own machine"


@pytest.mark.parametrize(
    "origin",
    [EVIL, "null", "file://", "http://localhost:3000", "https://evil.example", "http://localhost.evil.example",
     "chrome-extension://abc", "", "http://"],
)  # fmt: skip
def test_pages_of_elsewhere_are_refused(origin: str) -> None:
    for config in (LOOPBACK, ServerConfig(host="0.0.0.0"), ServerConfig(cors_origins=("http://page",))):
        for fields in ({}, {"content_type": "application/json", "content_length": "2"}):
            assert verdict(config, origin=origin, **fields) == NOT_ORIGIN


def test_its_own_pages_and_listed_ones_pass() -> None:
    assert verdict(LOOPBACK, "localhost:8000", origin="http://localhost:8000") is None
    assert verdict(LOOPBACK, "localhost:8000", origin="http://localhost:8001") == NOT_ORIGIN
    assert verdict(LOOPBACK, "localhost:8000", origin="http://127.0.0.1:8000") == NOT_ORIGIN, "another page's store"
    listed = ServerConfig(cors_origins=("http://localhost:3000", "app://obsidian.md"))
    assert verdict(listed, origin="http://localhost:3000") is None
    assert verdict(listed, origin="app://obsidian.md") is None
    assert verdict(ServerConfig(cors_origins=("*",)), origin=EVIL) is None
    behind = ServerConfig(allowed_hosts=("llm.example.com",))  # a proxy that ends TLS and keeps the Host
    assert verdict(behind, "llm.example.com", origin="https://llm.example.com") is None


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "text/plain;application/json", "application/x-www-form-urlencoded", "", "application/jsonp",
     "multipart/form-data; boundary=x", "application/octet-stream"],
)  # fmt: skip
def test_a_page_sends_json_or_nothing(kind: str) -> None:
    """These need no preflight: a page that is not listed could send them."""
    listed = ServerConfig(cors_origins=("http://page",))
    for length in ({"content_length": "2"}, {"transfer_encoding": "chunked"}):
        assert verdict(listed, origin="http://page", content_type=kind, **length) == (415, "content_type_unsupported")
        assert verdict(listed, content_type=kind, **length) is None, "curl and programs send what they like"
    for good in ("application/json", "Application/JSON; charset=utf-8", "application/problem+json"):
        assert verdict(listed, origin="http://page", content_type=good, content_length="2") is None


def test_every_route_is_behind_it() -> None:
    config = Config(models=(ModelConfig("none.gguf", name="m"),), logging=LoggingConfig(format="json"))
    app = create_app(config, log_stream=io.StringIO())

    async def asked() -> list[httpx.Response]:
        replies = []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            paths = [path for route in ROUTES for path in route.paths]
            for path in [*paths, "/docs", "/openapi.json", "/nowhere"]:
                for headers in ({"host": "evil.example"}, {"origin": EVIL}):
                    for verb in ("GET", "OPTIONS", "HEAD", "POST"):
                        replies.append(await client.request(verb, path.replace("{name:path}", "m"), headers=headers))
        return replies

    replies = asyncio.run(asked())
    assert {reply.status_code for reply in replies} == {403} and len(replies) > 100
    assert not any("access-control-allow-origin" in reply.headers for reply in replies)


@pytest.mark.models
def test_over_a_socket(smol: Running) -> None:
    def answered(head: str) -> str:
        with socket.create_connection(("127.0.0.1", smol.port), timeout=30) as connection:
            connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    assert answered("GET http://localhost/version HTTP/1.1\r\nHost: evil.example").startswith("HTTP/1.1 200")
    assert answered("GET http://localhost/v1/models?x=1 HTTP/1.1\r\nHost: localhost").startswith("HTTP/1.1 200")
    assert answered("GET http://evil.example/version HTTP/1.1\r\nHost: localhost").startswith("HTTP/1.1 403")
    assert answered("GET /version HTTP/1.1\r\nHost: localhost\r\nHost: evil.example").startswith("HTTP/1.1 400")
    assert answered("GET /version HTTP/1.0").startswith("HTTP/1.1 200"), "no name, no foreign one"
    forwarded = answered("GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 1.2.3.4")
    assert forwarded.startswith("HTTP/1.1 404")


def test_what_a_loopback_is() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.com", "")))
