"""The state of an engine for observers in other threads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cutaway.engine.counts import Counts
from cutaway.engine.loop import EngineCore


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one KV group. window: None for full attention."""

    window: int | None
    free: int
    held: int
    cached: int


@dataclass(frozen=True, slots=True)
class Status:
    """running, waiting: answers. steps: so far. busy: seconds spent in them. preemptions: so far. drafted, accepted:
    tokens that speculation drafted so far, and those that were accepted. counts: of tokens so far. failed: whether
    the engine has failed and accepts no more requests.

    Read while the engine works: each number is right for some moment, but not all for the same one.
    """

    running: int
    waiting: int
    steps: int
    busy: float
    preemptions: int
    pages: tuple[Pages, ...]
    drafted: int = 0
    accepted: int = 0
    counts: Counts = field(default_factory=Counts)
    failed: bool = False


def status_of(core: EngineCore) -> Status:
    """The state. May be called from any thread."""
    pages = core.pages
    pools = [
        Pages(group.window, pool.free, pool.total - pool.free - pool.cached, pool.cached)
        for group, pool in zip(pages.groups, pages.pools, strict=True)
    ]
    running, waiting = len(core.scheduler.running), len(core.scheduler.waiting)
    counts = core.steps, core.busy, core.preemptions
    return Status(
        running, waiting, *counts, tuple(pools), core.drafted, core.accepted, replace(core.counts),
        failed=core._broken is not None,
    )  # fmt: skip
