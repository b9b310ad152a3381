from __future__ import annotations

import pytest

from cutaway.cache import PagePool


def test_pages_come_in_a_fixed_order_and_the_last_given_back_first() -> None:
    pool = PagePool(4)
    assert [pool.take() for _ in range(3)] == [0, 1, 2]
    pool.give(1)
    pool.give(0)
    assert [pool.take(), pool.take(), pool.take()] == [0, 1, 3]
    assert pool.available == 0
    pool.check()


def test_a_shared_page_is_free_only_after_its_last_holder() -> None:
    pool = PagePool(2)
    page = pool.take()
    pool.share(page)
    pool.give(page)
    assert (pool.held, pool.free) == (1, 1)
    pool.check({page: 1})
    pool.give(page)
    assert (pool.held, pool.free) == (0, 2)


def test_published_pages_are_kept_and_evicted_in_order_of_last_use() -> None:
    evicted: list[int] = []
    pool = PagePool(3, evicted.append)
    for page in (pool.take(), pool.take(), pool.take()):
        pool.publish(page)
    for page in (2, 0, 1):
        pool.give(page)
    assert (pool.free, pool.cached, pool.available) == (0, 3, 3)
    pool.share(2)  # used again, so it goes last
    pool.give(2)
    assert [pool.take(), pool.take(), pool.take()] == [0, 1, 2] == evicted
    assert not pool.is_published(0)
    pool.check({0: 1, 1: 1, 2: 1})


def test_retracting_frees_a_cached_page() -> None:
    pool = PagePool(2)
    page = pool.take()
    pool.publish(page)
    pool.give(page)
    pool.retract(page)
    assert (pool.free, pool.cached) == (2, 0)
    pool.check()


def test_misuse_is_caught() -> None:
    pool = PagePool(1)
    with pytest.raises(AssertionError, match="without a holder"):
        pool.give(0)
    with pytest.raises(AssertionError, match="is free"):
        pool.share(0)
    pool.take()
    with pytest.raises(AssertionError, match="no page left"):
        pool.take()
    with pytest.raises(AssertionError, match="differ"):
        pool.check({})
