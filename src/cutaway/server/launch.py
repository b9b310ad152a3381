"""Runs the application: the socket, the signals, the shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from types import FrameType
from typing import TextIO

import uvicorn
from fastapi import FastAPI

import cutaway
from cutaway.config import Config, ServerConfig
from cutaway.errors import ConfigError, CutawayError
from cutaway.server.app import create_app
from cutaway.server.inspect.requests import kept_json
from cutaway.server.state import Service
from cutaway.server.transport.connection import Connection
from cutaway.server.transport.hosts import is_loopback
from cutaway.trace import NULL, Recorder
from cutaway.xray.server_state import Announcement, ServerState, ended_now, log_file, process_start

DEAD_PEER_MS = 60_000  # a peer that acknowledges nothing for this long counts as dead


def serve(config: Config, *, log_stream: TextIO | None = None) -> None:
    """Serve until a signal. Raises CutawayError if the server cannot start: the address, the config, a model."""
    listener = open_listener(config.server)
    try:
        server = make_server(config, log_stream)
        service = server.service
        host, port = listener.getsockname()[:2]
        service.log.info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")
        kept = kept_json(service.flights)
        kept["keeps"] = kept.pop("level")  # a line has a level of its own
        if (folder := config.record.folder) is not None:
            kept["folder"] = folder
        service.log.info("records of the last requests", **kept)
        if not is_loopback(config.server.host) and not service.keys:
            service.log.warning(
                "open to everybody who reaches this address: no API keys are set", host=config.server.host
            )
        with _signals_end_here(), service.log.takes_the_rest(), announced(service, host, port):
            asyncio.run(server.serve([listener]))
    finally:
        listener.close()
    if service.roster.failed is not None:
        failure = service.roster.failed
        raise failure if isinstance(failure, CutawayError) else CutawayError(f"a model cannot be loaded: {failure!r}")


@contextlib.contextmanager
def announced(service: Service, host: str, port: int) -> Iterator[None]:
    """Within this block, commands of the same user find this server and its admin token. If the files cannot be
    written, there is no admin, and a warning says so."""
    state = ServerState(
        os.getpid(), host, port, service.began, cutaway.__version__, process_start(os.getpid()), log_file(),
        tuple(service.roster.models),
    )  # fmt: skip
    try:
        announcement = Announcement(state, service.admin.value)
    except (OSError, ConfigError) as error:
        service.log.warning("there is no admin of /x/, because the state folder cannot be used", reason=str(error))
        yield
        return
    try:
        yield
    except BaseException as error:
        announcement.close(ended_now("failed", repr(error)))
        raise
    failure = service.roster.failed
    announcement.close(ended_now("stopped") if failure is None else ended_now("failed", str(failure)))


class DrainingServer(uvicorn.Server):
    """On a signal: admit no more requests, and give running ones the grace period."""

    @property
    def service(self) -> Service:
        assert isinstance(self.config.app, FastAPI)
        service: Service = self.config.app.state.service
        return service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.service.admission.drain()
        super().handle_exit(sig, frame)


def make_server(config: Config, log_stream: TextIO | None = None, recorder: Recorder = NULL) -> DrainingServer:
    """The server, not yet running. Raises ConfigError, ModelNotFoundError."""

    def stop() -> None:
        server.should_exit = True

    app = create_app(config, log_stream=log_stream, failed=stop, recorder=recorder)
    server = DrainingServer(
        uvicorn.Config(
            app,
            http=Connection,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=bool(config.server.trusted_proxies),
            forwarded_allow_ips=list(config.server.trusted_proxies),
            ws="none",
            timeout_graceful_shutdown=max(1, round(config.server.grace)),
            timeout_keep_alive=75,
        )
    )
    return server


def open_listener(config: ServerConfig) -> socket.socket:
    """A listening socket whose connections notice a peer that disappeared silently. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", 30),
            ("TCP_KEEPINTVL", 10),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", DEAD_PEER_MS),
        ):
            if hasattr(socket, name):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        listener.bind((config.host, config.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {config.host}:{config.port}: {error.strerror or error}",
            hint="choose another --port or --host",
        ) from None
    return listener


@contextlib.contextmanager
def _signals_end_here() -> Iterator[None]:
    """uvicorn raises the signal again after it has stopped, when nothing is left to interrupt."""
    before = {s: signal.signal(s, lambda *_: None) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
