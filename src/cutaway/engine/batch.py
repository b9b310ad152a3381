"""The arrays of one step, made from a plan."""

from __future__ import annotations

from array import array

import numpy as np

from cutaway.cache import PageTables
from cutaway.engine.step_plan import Plan
from cutaway.ops.protocol import I32, Step

_UNHELD = array("i", [-1])


def build_step(plan: Plan, pages: PageTables) -> Step:
    """The plan's tokens, positions, page tables and rows of logits. Each chunk has one table row, in the plan's
    order."""
    tokens: list[int] = []  # lists, because for one token each call into NumPy costs as much as all of these
    positions: list[int] = []
    request_of: list[int] = []
    rows: list[int] = []
    for request, chunk in enumerate(plan.batch):
        work, start, end = chunk.work, chunk.start, chunk.start + chunk.count
        tokens += work.tokens[start:end]
        tokens += work.drafts[: chunk.drafted]
        positions += range(start, end)
        request_of += [request] * chunk.count
        rows += range(len(tokens) - chunk.rows, len(tokens))
    return Step(
        np.array(tokens, np.int32),
        np.array(positions, np.int32),
        np.array(request_of, np.int32),
        tuple(_tables(plan, pages, group) for group in range(len(pages.groups))),
        np.array(rows, np.int32),
    )


def _tables(plan: Plan, pages: PageTables, group: int) -> I32:
    """int32 [requests, longest table of the step], padded with -1."""
    tables = [pages.table(chunk.work.id, group) for chunk in plan.batch]
    width = max(map(len, tables))
    return np.array([table + _UNHELD * (width - len(table)) for table in tables], np.int32)
