"""The body of a request: bounded, JSON in UTF-8 according to RFC 8259, or in another encoding that the config accepts.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from starlette.requests import Request

from cutaway.server.transport.body_encodings import decode_chinese, is_taken, looks_like
from cutaway.server.transport.errors import ApiError, bad_request

BODY_SECONDS = 60.0  # for a complete body; a slower client would hold a connection for nothing
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w-]+)", re.ASCII | re.IGNORECASE)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape of one surrogate, or a part of a pair
_HALF = re.compile("[\ud800-\udfff]")


class Body(dict[str, Any]):
    """The object of a request. warnings: about how it was read. twice: keys that appeared more than once in one
    object."""

    def __init__(self, value: dict[str, Any], warnings: Sequence[str] = (), twice: Sequence[str] = ()) -> None:
        super().__init__(value)
        self.warnings = tuple(warnings)
        self.twice = tuple(dict.fromkeys(twice))


async def read_json(request: Request, *, max_bytes: int, max_depth: int, encodings: Sequence[str] = ()) -> Body:
    """The body as an object. The body of every route is read here. encodings: accepted encodings other than UTF-8.

    Raises ApiError: 400, 408, 413.
    """
    charset = _CHARSET.search(request.headers.get("content-type", ""))
    named = charset[1].lower() if charset else ""
    return parse_json(await read_body(request, max_bytes), max_depth, encodings, named)


async def read_body(request: Request, max_bytes: int) -> bytes:
    """All bytes, up to the limit."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {BODY_SECONDS:g} s", code="request_timeout") from None
    return bytes(body)


def parse_json(body: bytes, max_depth: int, encodings: Sequence[str] = (), named: str = "") -> Body:
    """An object from bytes. encodings: see read_json. named: the encoding that the request names. Raises ApiError."""
    text, warnings = _text(body, encodings, named)
    if "\0" in text:
        raise bad_request(
            f"the body holds NUL bytes; {looks_like(body)}. JSON must be sent in UTF-8", code="encoding_invalid"
        )
    if not text.strip():
        raise bad_request("the body is empty; it must be a JSON object", code="json_invalid")
    twice: list[str] = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            twice.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return value

    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=made)
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else str(error).partition(";")[0]
        raise bad_request(f"the body is not valid JSON: {why}", code="json_invalid") from None
    if not isinstance(value, dict):
        raise bad_request(f"the body must be a JSON object, not {_kind(value)}", code="json_invalid")
    check_depth(value, max_depth)
    if _SURROGATE.search(text):
        _check_strings(value)
    return Body(value, warnings, twice)


def _text(body: bytes, encodings: Sequence[str], named: str) -> tuple[str, list[str]]:
    """The body as text, and warnings about how it was read. Raises ApiError."""
    try:
        if is_taken(named, encodings):
            body.decode("ascii")
        return body.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        if (found := decode_chinese(body, encodings, named)) is not None:
            text, name = found
            return text, [f"the body was read as {name}; JSON must be sent in UTF-8"]
        raise bad_request(
            f"the body is not UTF-8 (byte {error.start} is 0x{body[error.start]:02x}); {looks_like(body)}. "
            "JSON must be sent in UTF-8",
            code="encoding_invalid",
        ) from None


def _check_strings(value: dict[str, Any]) -> None:
    """Check that no key and no string contains half a surrogate pair, which is not valid text. Raises ApiError."""
    level: list[tuple[str, Any]] = [("", value)]
    while level:
        inner: list[tuple[str, Any]] = []
        for path, one in level:
            if isinstance(one, str) and _HALF.search(one):
                raise bad_request(
                    f"{path} contains half a surrogate pair, which is not valid text", re.split(r"[.\[]", path)[0],
                    "encoding_invalid",
                )  # fmt: skip
            if isinstance(one, dict):
                if wrong := next((key for key in one if _HALF.search(key)), None):
                    raise bad_request(
                        f"the key {ascii(wrong)[:80]} contains half a surrogate pair, which is not valid text",
                        code="encoding_invalid",
                    )
                inner += [(f"{path}.{key}" if path else key, v) for key, v in one.items()]
            elif isinstance(one, list):
                inner += [(f"{path}[{at}]", v) for at, v in enumerate(one)]
        level = inner


def check_depth(value: Any, most: int) -> None:
    """Check the depth level by level, so that no depth can exhaust the stack. Raises ApiError."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > most:
            raise _too_deep(most)
        inner = [v.values() if isinstance(v, dict) else v for v in level]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]


def _kind(value: Any) -> str:
    return {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(413, f"the body is larger than the {max_bytes} bytes allowed here", code="body_too_large")


def _too_deep(max_depth: int) -> ApiError:
    return bad_request(f"the JSON is nested more than {max_depth} levels deep", code="json_too_deep")
