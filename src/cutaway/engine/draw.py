"""Draws the next tokens of a step's requests in one call, for requests that need nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cutaway.engine.request import Request
from cutaway.engine.step_plan import Plan
from cutaway.ops.rows import Rows
from cutaway.sampling import draw_together


def draw_rows(
    plan: Plan, requests: Mapping[int, Request], watched: Collection[int], rows: Rows
) -> dict[int, int]:
    """The argument `drawn` of the requests' `choose`, by row. requests: by id. watched: requests whose stages are
    recorded one by one."""
    samplers = {}
    seen = 0
    for chunk in plan.chunks:
        seen += chunk.rows
        request = requests[chunk.work.id]
        if request.id not in watched and request.draws(chunk):
            samplers[seen - 1] = request.sampler
    return draw_together(rows, samplers)
