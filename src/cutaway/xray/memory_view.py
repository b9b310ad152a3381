"""Where the memory of a process is: predicted, measured and the difference, for every owner, and the rest.

All figures are bytes. What the kernel counts as the process's own (anonymous) memory is split among owners; what is
left over is `unaccounted`, whatever its sign. A row that is `within` another one is part of it, and not added again.
What the C library keeps free is in no sum: how much of it is in memory is not known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from cutaway.assemble import Engine
from cutaway.engine import Status
from cutaway.ops.held_memory import held_now
from cutaway.ops.process_memory import Mappings, allocator, mappings, python_arenas, resident

SLOW = 5.0  # seconds between two walks over all of the process's pages


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model, and what it is called."""

    name: str
    engine: Engine


@dataclass(frozen=True, slots=True)
class Owned:
    """One row. predicted: by the plan, before it was loaded; None: not predicted. measured: None: unknown."""

    owner: str
    predicted: int | None
    measured: int | None
    model: str | None = None
    within: str | None = None
    note: str = ""

    def json(self) -> dict[str, Any]:
        known = self.predicted is not None and self.measured is not None
        return {
            "owner": self.owner, "model": self.model, "predicted": self.predicted, "measured": self.measured,
            "difference": (self.measured or 0) - (self.predicted or 0) if known else None, "within": self.within,
            "note": self.note,
        }  # fmt: skip


def memory_view(models: Sequence[LoadedModel]) -> dict[str, Any]:
    """The record of this process's memory, with these models in it."""
    now, found, kept = resident(), _walk(), allocator()
    rows = [row for model in models for row in _model_rows(model)]
    held = held_now()
    ours = sum(m.engine.growth.held.total for m in models if m.engine.growth is not None)
    if held.total != ours:
        rows.append(Owned("other models", None, held.total - ours, note="loaded beside these, or being loaded"))
    if found is not None:
        rows.append(
            Owned("not yet written", None, min(0, found.engine - held.total), note="takes no memory so far")
        )
    rows += [
        Owned("python", None, python_arenas(), note="objects of up to 512 bytes"),
        Owned("allocator, in use", None, None if kept is None else kept.used, note="the C library's"),
        Owned(
            "allocator, kept", None, None if kept is None else kept.kept, within="unaccounted",
            note="free, for later",
        ),
        Owned("libraries", None, None if found is None else found.libraries, note="written pages of mapped files"),
        Owned("first stack", None, None if found is None else found.stacks),
    ]
    accounted = sum(row.measured or 0 for row in rows if row.within is None)
    unknown = [row.owner for row in rows if row.measured is None and row.within is None]
    return {
        "at": time.time(),
        "pid": os.getpid(),
        "owners": [row.json() for row in rows],
        "accounted": accounted,
        "anonymous": None if now is None else now.anonymous,
        "unaccounted": None if now is None or unknown else now.anonymous - accounted,
        "file": None if now is None else now.file,
        "shared": None if now is None else now.shared,
        "swapped": None if now is None else now.swapped,
    }


def _model_rows(model: LoadedModel) -> list[Owned]:
    engine, name = model.engine, model.name
    plan, growth, status = engine.memory, engine.growth, engine.status()
    held = growth.held if growth is not None and growth.held.total else None
    weights, pages, scratch = (None, None, None) if held is None else (held.weights, held.pages, held.scratch)
    rows = [
        Owned("weights", sum(w.packed for w in plan.weights), weights, name),
        Owned("pages", plan.kv_bytes, pages, name, note="of keys and values"),
        *_page_states(name, engine, status),
        Owned("scratch", plan.scratch, scratch, name, note="of the largest step"),
    ]
    within = "allocator, in use"
    rows += [
        Owned("vectors and positions", plan.vectors + plan.positions, None, name, within, "unknown apart"),
        Owned(
            "tokenizer", None, None if growth is None else growth.tokenizer, name, within,
            "a part is python's",
        ),
    ]  # fmt: skip
    return rows


def _page_states(name: str, engine: Engine, status: Status) -> list[Owned]:
    """Bytes of the pages by state, over all groups."""
    pairs = [(group.page_bytes, p) for group, p in zip(engine.memory.groups, status.pages, strict=True)]
    states = {
        "pages held": (sum(size * p.held for size, p in pairs), "by requests"),
        "pages cached": (sum(size * p.cached for size, p in pairs), "the prefix cache"),
        "pages free": (sum(size * p.free for size, p in pairs), ""),
    }
    return [Owned(state, None, count, name, "pages", note) for state, (count, note) in states.items()]


class _Walk:
    """The latest walk over the process's pages. It is slow, and its result changes slowly."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._at = -SLOW
        self._found: Mappings | None = None

    def __call__(self) -> Mappings | None:
        with self._lock:
            if time.monotonic() - self._at >= SLOW:
                self._found, self._at = mappings(), time.monotonic()
            return self._found


_walk = _Walk()
