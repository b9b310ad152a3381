"""What goes wrong with a request, as the APIs' clients expect to hear it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from cutaway.errors import CutawayError, EngineError, MemoryShortError
from cutaway.sampling import SamplingParams


class ApiError(Exception):
    """An answer that is an error.

    status: of HTTP. type, code: OpenAI's words where it has one. param: the field that is to blame.
    retry_after: seconds after which it is worth while to ask again.
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
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.type = type or _type(status)
        self.headers = dict(headers or {}) | ({} if retry_after is None else {"retry-after": str(retry_after)})

    def body(self) -> dict[str, Any]:
        """OpenAI's shape."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def anthropic_body(self, request_id: str) -> dict[str, Any]:
        """Anthropic's shape."""
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
    """Any exception as an answer. names: how the request called our parameters, where it called them otherwise.

    What input can cause is a 400 with the error's own words; a fault of the engine's or of ours is a 500.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, MemoryShortError):
        return ApiError(503, str(error), code=error.code, retry_after=30)
    if isinstance(error, EngineError):
        return ApiError(500, str(error), code=error.code)
    if isinstance(error, CutawayError):
        names = names or {}
        word = _FIELD.match(str(error))
        field = word[0] if word and word[0] in _PARAMETERS else ""
        called = names.get(field, field)
        param = _PARAMS.get(error.code, called)
        return bad_request(called + str(error)[len(field) :], names.get(param, param) or None, error.code)
    return ApiError(500, f"{type(error).__name__}: {error} (a fault of cutaway's)", code="internal_error")


_FIELD = re.compile(r"[a-z][a-z0-9_]*")  # of a parameter: our errors begin with its name
_PARAMETERS = frozenset(f.name for f in dataclasses.fields(SamplingParams)) | {"prompt", "tools"}
_PARAMS = {
    "context_length_exceeded": "messages", "messages_invalid": "messages", "template_refused": "messages",
    "template_failed": "messages", "content_unsupported": "messages", "tokenizer_invalid": "prompt",
}  # fmt: skip
