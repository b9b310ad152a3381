"""The next tokens of a step's requests, drawn in one call where nothing is wanted but a draw."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cutaway.engine.request import Request
from cutaway.engine.work import Plan
from cutaway.ops.protocol import F32
from cutaway.sampling import draw_together


def draw_rows(
    plan: Plan, requests: Mapping[int, Request], watched: Collection[int], logits: F32, team: Any
) -> dict[int, int]:
    """By row of `logits`, what the request's `choose` takes as `drawn`. requests: by id; watched: those whose stages
    somebody looks at one by one; team: threads to work on."""
    samplers = {}
    rows = 0
    for chunk in plan.chunks:
        rows += chunk.rows
        request = requests[chunk.work.id]
        if request.id not in watched and request.draws(chunk):
            samplers[rows - 1] = request.sampler
    return draw_together(logits, samplers, team)
