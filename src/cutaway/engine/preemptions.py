"""The latest preemptions with the figures that caused them. A preemption is rare, so they are always kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from time import time

from cutaway.engine.request import Request
from cutaway.engine.step_plan import Plan

KEPT = 64


@dataclass(frozen=True, slots=True)
class NotedPreemption:
    """at: seconds since 1970. step: in which it happened. id, request, key: of the request that lost its pages: its
    number, its name, what its prefixes are shared within; gainer, gainer_name: of the one that they went to. The rest
    is as in Preemption."""

    at: float
    step: int
    id: int
    request: str
    key: Hashable
    gainer: int
    gainer_name: str
    computed: int
    held: tuple[int, ...]
    granted: int
    needed: tuple[int, ...]
    available: tuple[int, ...]


def note_preemptions(
    kept: deque[NotedPreemption], plan: Plan, requests: Mapping[int, Request], step: int
) -> int:
    """Count a plan's preemptions at their requests, and keep why. Returns how many there were."""
    for why in plan.preemptions:
        loser = requests[why.work.id]
        loser.preempted()
        kept.append(
            NotedPreemption(
                time(), step, loser.id, loser.name, why.work.key, why.gainer, requests[why.gainer].name, why.computed,
                why.held, why.granted, why.needed, why.available,
            )
        )  # fmt: skip
    return len(plan.preemptions)
