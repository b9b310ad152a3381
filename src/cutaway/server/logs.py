"""The log: one line per request, JSON or for people; every token of a sampled share of requests at level debug.

Prompts and answers are not in it unless the config says so; keys never are.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import FilteringBoundLogger

from cutaway.config import LoggingConfig

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Log:
    """One server's log, on standard error unless told otherwise."""

    def __init__(self, config: LoggingConfig, stream: TextIO | None = None) -> None:
        self.prompts = config.prompts
        self._share = config.token_share if config.level == "debug" else 0.0
        out = stream or sys.stderr
        render: Any = structlog.dev.ConsoleRenderer(colors=out.isatty(), sort_keys=False)
        if config.format == "json":
            render = structlog.processors.JSONRenderer(ensure_ascii=False)
        self._logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.PrintLogger(out),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=config.format == "json"),
                structlog.processors.format_exc_info,
                render,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[config.level]),
            cache_logger_on_first_use=True,
        )

    def info(self, event: str, **facts: Any) -> None:
        self._logger.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._logger.warning(event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        self._logger.error(event, **facts)

    def tells_tokens(self, request_id: str) -> bool:
        """Whether this request's tokens are logged: by the hash of its id, so that one can know beforehand."""
        if not self._share:
            return False
        return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:4]) < self._share * 2**32

    def token(self, request_id: str, choice: int, token: int, text: str) -> None:
        self._logger.debug("token", id=request_id, choice=choice, token=token, text=text)
