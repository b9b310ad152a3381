"""GET /x/requests/{id}/prompt and /trace: what the model saw of a request, and where its time went."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.server.inspect.access import check_admin, shown, viewer
from cutaway.server.inspect.query import query_of
from cutaway.server.inspect.requests import engine_of, found
from cutaway.server.state import service_of
from cutaway.server.transport.errors import ApiError, bad_request
from cutaway.xray.course import recorded_course
from cutaway.xray.op_times import op_times
from cutaway.xray.prompt_account import PromptInput, prompt_account
from cutaway.xray.prompt_findings import prompt_findings
from cutaway.xray.prompt_json import account_json
from cutaway.xray.prompt_model import PromptModel
from cutaway.xray.record import RequestRecord
from cutaway.xray.trace import trace_of
from cutaway.xray.trace_json import trace_json


async def show_prompt(request: Request) -> Response:
    """The tokens of a request's prompt, what is odd about them, and what the context was spent on."""
    record = await found(request, request.path_params["id"])
    if record.prompt_ids is None:
        raise ApiError(409, "this record has figures only, and not the prompt", code="record_incomplete")
    async with engine_of(request, record) as engine:
        return shown(await _in_turn(request, lambda: _prompt(engine, record)))


async def show_trace(request: Request) -> Response:
    """The stages of a request. Query: ops=true measures the ops by computing its text again, for the admin."""
    record = await found(request, request.path_params["id"])
    wanted = query_of(request, frozenset({"ops"})).get("ops", "false")
    if wanted not in ("true", "false"):
        raise bad_request("ops must be true or false", "ops", "parameter_invalid")
    if wanted == "false":
        return shown(trace_json(trace_of(recorded_course(record), why="ops=true was not given")))
    check_admin(request)  # steps of other requests wait meanwhile
    async with engine_of(request, record) as engine:
        if engine.inside is not None and engine.inside.looking.locked():
            what = "the ops of another request are being measured"
            raise ApiError(429, what, code="too_many_requests", retry_after=5)
        return shown(await _in_turn(request, lambda: _trace(engine, record)))


async def _in_turn(request: Request, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Computed in a thread that requests do not wait for, few at once. Raises ApiError: 429."""
    return await service_of(request).turns.run(request, viewer(request).caller, lambda _: work())


def _prompt(engine: Engine, record: RequestRecord) -> dict[str, Any]:
    model, given = PromptModel.of(engine), PromptInput(ids=record.prompt_ids)
    account = prompt_account(model, given)
    return account_json(account, prompt_findings(account, model, given))


def _trace(engine: Engine, record: RequestRecord) -> dict[str, Any]:
    course = recorded_course(record)
    if course.ids is None or course.answer is None:
        return trace_json(trace_of(course, why="the record has no token ids"))
    began = perf_counter()
    ops = op_times(engine, course.ids, course.answer)
    return trace_json(trace_of(course, engine.inside, ops, 1e3 * (perf_counter() - began)))
