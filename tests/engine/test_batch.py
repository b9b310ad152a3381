from __future__ import annotations

from cutaway.cache import GroupSize, PageTables
from cutaway.engine.batch import build_step
from cutaway.engine.step_plan import Chunk, Plan, Work


def test_a_plan_becomes_the_arrays_of_a_step() -> None:
    pages = PageTables([GroupSize(None, 9), GroupSize(2, 9)], 2)
    works = [Work(1, [10, 11, 12, 13, 14], 4), Work(2, [20], 0)]
    pages.open(1, works[0].tokens)
    pages.extend(1, 3)
    pages.written(1, works[0].tokens)
    pages.extend(1, 2)
    pages.open(2, works[1].tokens)
    pages.extend(2, 1)
    step = build_step(Plan((Chunk(works[0], 3, 2, 1), Chunk(works[1], 0, 1, 1)), (), ()), pages)
    assert step.tokens.tolist() == [13, 14, 20]
    assert step.positions.tolist() == [3, 4, 0]
    assert step.request_of.tolist() == [0, 0, 1]
    assert step.rows.tolist() == [1, 2]
    assert [table.tolist() for table in step.page_tables] == [[[0, 1, 2], [3, -1, -1]], [[-1, 1, 2], [3, -1, -1]]]
    assert all(a.dtype == "int32" for a in (step.tokens, step.positions, step.request_of, step.rows, *step.page_tables))
