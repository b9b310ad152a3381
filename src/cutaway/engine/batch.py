"""A plan as the arrays of one step."""

from __future__ import annotations

import numpy as np

from cutaway.cache import PageTables
from cutaway.engine.work import Chunk, Plan
from cutaway.ops.protocol import I32, Step


def build_step(plan: Plan, pages: PageTables) -> Step:
    """The plan's tokens, positions, page tables and wanted rows; one table row per chunk, in the plan's order."""
    chunks = plan.chunks
    counts = np.array([chunk.count for chunk in chunks], np.int32)
    ends = np.cumsum(counts, dtype=np.int32)
    tokens = [token for chunk in chunks for token in _tokens(chunk)]
    positions = [np.arange(chunk.start, chunk.start + chunk.count, dtype=np.int32) for chunk in chunks]
    rows = [np.arange(end - chunk.rows, end, dtype=np.int32) for end, chunk in zip(ends, chunks, strict=True)]
    return Step(
        tokens=np.array(tokens, np.int32),
        positions=np.concatenate(positions),
        request_of=np.repeat(np.arange(len(chunks), dtype=np.int32), counts),
        page_tables=tuple(_tables(plan, pages, group) for group in range(len(pages.groups))),
        rows=np.concatenate(rows),
    )


def _tokens(chunk: Chunk) -> list[int]:
    known = chunk.work.tokens[chunk.start : chunk.start + chunk.count]
    return known + chunk.work.drafts[: chunk.drafted]


def _tables(plan: Plan, pages: PageTables, group: int) -> I32:
    """int32 [requests, longest table of the step], padded with -1."""
    tables = [pages.table(chunk.work.id, group) for chunk in plan.chunks]
    out = np.full((len(tables), max(map(len, tables))), -1, np.int32)
    for row, table in zip(out, tables, strict=True):
        row[: len(table)] = table
    return out
