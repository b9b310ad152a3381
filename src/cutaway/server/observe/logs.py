"""The log: one line per request, as JSON or for people, and at level debug every token of a sampled share of requests.

Prompts and answers are logged only if the config says so, and keys never. Messages of libraries take the same way, so
that they do not wait for the reader of the log either.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import structlog
from structlog.typing import FilteringBoundLogger

from cutaway.config import LoggingConfig
from cutaway.server.observe.log_writer import LineWriter

FLUSH_SECONDS = 2.0  # how long the end of a server waits for the reader of its log
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Log:
    """One server's log, on standard error by default. It never waits for its reader and never fails."""

    def __init__(self, config: LoggingConfig, stream: TextIO | None = None) -> None:
        self.prompts = config.prompts
        self._share = config.token_share if config.level == "debug" else 0.0
        out = stream or sys.stderr
        render: Any = structlog.dev.ConsoleRenderer(colors=out.isatty(), sort_keys=False)
        if config.format == "json":
            render = structlog.processors.JSONRenderer(ensure_ascii=False)
        processors = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=config.format == "json"),
            structlog.processors.format_exc_info,
            render,
        ]

        def notice(missing: int, reason: str) -> str:
            event: Any = {"event": "log lines were dropped", "dropped": missing, "reason": reason}
            for process in processors:
                event = process(None, "warning", event)
            return f"{event}\n"

        self._writer = LineWriter(out, notice)
        self._logger: FilteringBoundLogger = structlog.wrap_logger(
            _Lines(self._writer),
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[config.level]),
            cache_logger_on_first_use=True,
        )

    @property
    def dropped(self) -> int:
        """Lines that could not be written so far."""
        return self._writer.dropped

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until every line is written or dropped, for at most `seconds`. Returns whether it is."""
        return self._writer.flush(seconds)

    def info(self, event: str, **facts: Any) -> None:
        self._logger.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._logger.warning(event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        self._logger.error(event, **facts)

    def tells_tokens(self, request_id: str) -> bool:
        """Whether this request's tokens are logged. The hash of its id decides, so that the choice can be predicted."""
        if not self._share:
            return False
        return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:4]) < self._share * 2**32

    def token(self, request_id: str, choice: int, token: int, text: str) -> None:
        self._logger.debug("token", id=request_id, choice=choice, token=token, text=text)

    @contextmanager
    def takes_the_rest(self) -> Iterator[None]:
        """Within this block, messages of libraries and Python's warnings become lines of this log."""
        root, handler = logging.getLogger(), _Handler(self)
        before, root.handlers = root.handlers, [handler]
        logging.captureWarnings(True)
        try:
            yield
        finally:
            logging.captureWarnings(False)
            root.handlers = before


class _Lines:
    """The object that structlog calls with a rendered line."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer

    def msg(self, message: str) -> None:
        self._writer.write(f"{message}\n")

    debug = info = warning = error = msg


class _Handler(logging.Handler):
    """A record of Python's logging as a line."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
            if record.levelno < logging.WARNING:
                say = self._log.info
            say(record.getMessage().strip(), logger=record.name, **({"exc_info": i} if (i := record.exc_info) else {}))
        except Exception as error:
            self._log.error("a line of the log could not be made", logger=record.name, error=repr(error))
