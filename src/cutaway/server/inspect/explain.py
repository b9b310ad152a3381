"""GET /x/requests/{id}/explain: the account of each token of a request, computed on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.errors import RecordError
from cutaway.server.inspect.access import shown, viewer
from cutaway.server.inspect.query import digits, query_of
from cutaway.server.inspect.requests import engine_of, found
from cutaway.server.state import Service, service_of
from cutaway.server.transport.errors import ApiError, bad_request
from cutaway.xray.explanation import BEST, LEAD, Asked, explain, explanation_json, token_named
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.record import RequestRecord
from cutaway.xray.recorded import known_answer

_NUMBERS = ("at", "first", "last", "best", "lead", "choice")
_KNOWN = frozenset({*_NUMBERS, "tokens"})
MOST_TOKENS = 16


async def explain_request(request: Request) -> Response:
    """The account of an answer's tokens, why it stopped, and findings; behind all requests. Query: at, first, last,
    best, lead, choice (numbers), tokens (a JSON list of texts or #ID)."""
    service = service_of(request)
    query = _query(query_of(request, _KNOWN))
    record = _choice(service, request, await found(request, request.path_params["id"]), query.get("choice"))
    try:
        known = known_answer(record)
    except RecordError as error:
        raise ApiError(409, str(error), code="record_incomplete") from None
    async with engine_of(request, record) as engine:
        key = (None if service.config.server.share_prefixes else record.caller, None)
        asked = await service.in_thread(_asked, query, engine)
        work = _Work(engine, known, asked, key)
        return shown(await service.turns.run(request, viewer(request).caller, work))


class _Work:
    """What a thread does."""

    def __init__(self, engine: Engine, known: KnownAnswer, asked: Asked, key: Hashable) -> None:
        self._engine, self._known, self._asked, self._key = engine, known, asked, key

    def __call__(self, stopped: Callable[[], bool]) -> dict[str, Any]:
        made = explain(self._engine, self._known, self._asked, key=self._key, stopped=stopped)
        return explanation_json(made)


def _choice(service: Service, request: Request, record: RequestRecord, choice: int | None) -> RequestRecord:
    """The record of another answer to the same prompt. Raises ApiError: 404."""
    head = record.with_choice(choice, service.flights.heads())
    chosen = record if head is record else head and service.flights.find(head.id, viewer(request).may_see)
    if chosen is None:
        raise ApiError(404, f"the request has no answer {choice}", param="choice", code="record_not_found")
    return chosen


def _query(given: dict[str, str]) -> dict[str, Any]:
    """Raises ApiError."""
    query: dict[str, Any] = {}
    for name in _NUMBERS:
        if (value := given.get(name)) is not None:
            if (number := digits(value)) is None:
                raise bad_request(f"{name} must be a number from 0", name, "parameter_invalid")
            query[name] = number
    try:
        texts = json.loads(given.get("tokens", "[]"))
    except (ValueError, RecursionError):
        texts = None
    if not isinstance(texts, list) or len(texts) > MOST_TOKENS or not all(isinstance(text, str) for text in texts):
        what = f"tokens must be a JSON list of at most {MOST_TOKENS} texts, each a token's text or #ID"
        raise bad_request(what, "tokens", "parameter_invalid")
    return query | {"tokens": texts}


def _asked(query: dict[str, Any], engine: Engine) -> Asked:
    """Raises ParameterError for a text that is no token."""
    tokens = tuple(token_named(text, engine.tokenizer) for text in query["tokens"])
    return Asked(
        query.get("first", 0), query.get("last"), query.get("at"), tokens, query.get("best", BEST),
        query.get("lead", LEAD),
    )  # fmt: skip
