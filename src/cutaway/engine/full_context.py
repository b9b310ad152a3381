"""The loop's action when a request with a sliding context has filled it."""

from __future__ import annotations

from cutaway.engine.failure import as_ours
from cutaway.engine.request import Request
from cutaway.engine.scheduler import Scheduler
from cutaway.errors import CutawayError
from cutaway.sampling import StopReason


def slide(request: Request, scheduler: Scheduler, context: int) -> tuple[StopReason, CutawayError | None] | None:
    """Continue the answer after a shorter prompt, with everything computed again. Returns the stop if that is not
    possible."""
    try:
        prompt = request.shorter(context)
    except Exception as error:
        return StopReason("error", None, request.outputs), as_ours(error, "the prompt could not be shortened")
    if prompt is None:
        return StopReason("context", None, request.outputs - 1), None
    scheduler.remove(request.work)
    request.work.restart(prompt)
    scheduler.waiting.appendleft(request.work)
    return None
