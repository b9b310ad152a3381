"""The latest steps: what was computed together, and where the milliseconds went."""

from __future__ import annotations

from typing import Any

from cutaway.engine import Look, SeenStep
from cutaway.xray.owners import EVERYTHING, Eyes


def step_view(look: Look, eyes: Eyes = EVERYTHING, *, last: int = 64) -> dict[str, Any]:
    """The record of /x/steps: the latest steps since watching began, oldest first.

    A viewer who is no admin sees the steps in which its own requests took part, and only its own part of them.
    """
    seen = [step for step in look.log if eyes.all or any(eyes.sees(chunk.id) for chunk in step.chunks)]
    return {
        "model": eyes.model,
        "at": look.at,
        "watched_since": look.watched_since,
        "steps_so_far": look.steps if eyes.all else None,
        "steps": [step_json(step, eyes) for step in seen[-last:]],
    }


def step_json(step: SeenStep, eyes: Eyes) -> dict[str, Any]:
    """One step, through these eyes."""
    chunks = [chunk for chunk in step.chunks if eyes.sees(chunk.id)]
    return {
        "step": step.number,
        "at": step.at,
        "tokens": sum(chunk.count for chunk in chunks),
        "rows": sum(chunk.rows for chunk in chunks),
        "drafted": step.drafted if eyes.all else None,
        "waiting": step.waiting if eyes.all else None,
        "milliseconds": {name: round(value, 3) for name, value in step.milliseconds.items()},
        "predicted_forward_ms": round(step.predicted, 3) if eyes.all else None,
        "chunks": [
            {
                "request": eyes.owner(chunk.id, str(chunk.id)).request if chunk.id > 0 else None,
                "kind": "request" if chunk.id > 0 else "reading",
                "start": chunk.start,
                "tokens": chunk.count,
                "rows": chunk.rows,
            }
            for chunk in chunks
        ],
        "admitted": [eyes.owner(id, str(id)).request for id in step.admitted if eyes.sees(id)],
        "preempted": [eyes.owner(id, str(id)).request for id in step.preempted if eyes.sees(id)],
        "pages": [dict(zip(("free", "held", "cached"), counts, strict=True)) for counts in step.pages]
        if eyes.all
        else None,
    }
