"""A trace as JSON: the record behind `cutaway trace --json` and its route."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cutaway.xray.trace import Trace


def trace_json(trace: Trace) -> dict[str, Any]:
    """Times are milliseconds; shares 0 to 1. Token ids are left out: the request's record has them."""
    course = trace.course
    return {
        "model": course.model, "prompt_tokens": course.prompt_tokens, "cached_tokens": course.cached_tokens,
        "tokens": course.tokens, "total_ms": course.total,
        "stages": [asdict(stage) for stage in trace.stages],
        "steps": [
            {
                "began_ms": step.began, "ended_ms": step.ended, "start": step.start, "tokens": step.tokens,
                "reads": step.reads, "parts_ms": dict(step.parts),
            }
            for step in course.steps
        ],
        "prompt_ops": [asdict(row) for row in trace.prompt_ops],
        "answer_ops": [asdict(row) for row in trace.answer_ops],
        "places": [asdict(place) for place in trace.places],
        "ops_ms": trace.ops_ms, "why_no_ops": trace.why or None,
    }  # fmt: skip
