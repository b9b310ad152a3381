"""Errors of requests, in the terms of the APIs' clients."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from cutaway.errors import CutawayError, EngineError, MemoryShortError
from cutaway.sampling import SamplingParams


class ApiError(Exception):
    """An error reply.

    status: of HTTP. type, code: OpenAI's names if it has one. param: the field that caused the error. retry_after:
    seconds after which a retry makes sense. figures: the numbers that caused it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        type: str | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
        figures: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.figures = figures or {}
        self.param = param
        self.type = type or _type(status)
        self.headers = dict(headers or {}) | ({} if retry_after is None else {"retry-after": str(retry_after)})

    def body(self) -> dict[str, Any]:
        """The error in OpenAI's format."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def anthropic_body(self, request_id: str) -> dict[str, Any]:
        """The error in Anthropic's format."""
        kind = _ANTHROPIC.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}, "request_id": request_id}


_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
    503: "overloaded_error",
}  # fmt: skip
_ANTHROPIC = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 500: "api_error", 503: "overloaded_error",
}  # fmt: skip


def _type(status: int) -> str:
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def as_api_error(error: Exception, names: Mapping[str, str] | None = None) -> ApiError:
    """Any exception as an error reply. names: the request's names of sampling parameters, where they differ.

    An error that input can cause is a 400 with its own message; a failure of the engine or a bug is a 500.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, MemoryShortError):
        return ApiError(503, str(error), code=error.code, retry_after=30, figures=error.figures)
    if isinstance(error, EngineError):
        return ApiError(500, str(error), code=error.code)
    if isinstance(error, CutawayError):
        names = names or {}
        word = _FIELD.match(str(error))
        field = word[0] if word and word[0] in _PARAMETERS else ""
        called = names.get(field, field)
        param = _PARAMS.get(error.code, called)
        told = bad_request(called + str(error)[len(field) :], names.get(param, param) or None, error.code)
        told.figures = error.figures
        return told
    return ApiError(500, f"{type(error).__name__}: {error} (a fault of cutaway's)", code="internal_error")


_FIELD = re.compile(r"[a-z][a-z0-9_]*")  # of a parameter; error messages begin with its name
_PARAMETERS = frozenset(f.name for f in dataclasses.fields(SamplingParams)) | {"prompt", "tools"}
_PARAMS = {
    "context_length_exceeded": "messages", "messages_invalid": "messages", "template_refused": "messages",
    "template_failed": "messages", "content_unsupported": "messages", "tokenizer_invalid": "prompt",
}  # fmt: skip
