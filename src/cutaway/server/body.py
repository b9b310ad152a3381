"""A request's body: bounded, JSON in UTF-8 and nothing else, as RFC 8259 says."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from starlette.requests import Request

from cutaway.server.problems import ApiError, bad_request

BODY_SECONDS = 60.0  # until a body is there; whoever sends more slowly holds a connection for nothing


async def read_json(request: Request, *, max_bytes: int, max_depth: int) -> dict[str, Any]:
    """The body as an object. Raises ApiError: 400, 408, 413."""
    return parse_json(await read_body(request, max_bytes), max_depth)


async def read_body(request: Request, max_bytes: int) -> bytes:
    """All bytes, as far as they are allowed."""
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
        raise ApiError(408, f"the body did not come within {BODY_SECONDS:g} s", code="request_timeout") from None
    return bytes(body)


def parse_json(body: bytes, max_depth: int) -> dict[str, Any]:
    """An object from bytes. Raises ApiError."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise bad_request(
            f"the body is not UTF-8 (byte {error.start} is 0x{body[error.start]:02x}); {_looks_like(body)}. "
            "JSON is sent in UTF-8",
            code="encoding_invalid",
        ) from None
    if "\0" in text:
        raise bad_request(
            f"the body holds NUL bytes; {_looks_like(body)}. JSON is sent in UTF-8", code="encoding_invalid"
        )
    if not text.strip():
        raise bad_request("the body is empty; it must be a JSON object", code="json_invalid")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else str(error).partition(";")[0]
        raise bad_request(f"the body is not valid JSON: {why}", code="json_invalid") from None
    if not isinstance(value, dict):
        raise bad_request(f"the body must be a JSON object, not {_kind(value)}", code="json_invalid")
    check_depth(value, max_depth)
    return value


def check_depth(value: Any, most: int) -> None:
    """Level by level, so that no depth can exhaust the stack. Raises ApiError."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > most:
            raise _too_deep(most)
        inner = [v.values() if isinstance(v, dict) else v for v in level]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]


def _looks_like(body: bytes) -> str:
    """What the bytes seem to be."""
    if body.startswith(b"\x1f\x8b"):
        return "it looks like gzip, and is not unpacked here"
    for mark, name in (
        (b"\xff\xfe\0\0", "UTF-32"),
        (b"\0\0\xfe\xff", "UTF-32"),
        (b"\xff\xfe", "UTF-16"),
        (b"\xfe\xff", "UTF-16"),
    ):
        if body.startswith(mark):
            return f"it looks like {name}"
    if body[1:2] == b"\0" or body[:1] == b"\0":
        return "it looks like UTF-32" if body[:4].count(0) == 3 else "it looks like UTF-16"
    from charset_normalizer import from_bytes

    known = ["gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]
    best = from_bytes(body[:20_000], cp_isolation=known).best()
    name = best.encoding if best is not None else ""
    return f"it looks like {_NAMES.get(name, name.upper())}" if name else "it looks like no text encoding"


_NAMES = {"gb18030": "GBK (GB18030)", "big5": "Big5", "cp1252": "Latin-1 (Windows-1252)", "cp1251": "Windows-1251"}


def _kind(value: Any) -> str:
    return {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(413, f"the body is larger than the {max_bytes} bytes allowed here", code="body_too_large")


def _too_deep(max_depth: int) -> ApiError:
    return bad_request(f"the JSON is nested more than {max_depth} levels deep", code="json_too_deep")
