"""The pages of one KV group: free pages, held pages with their reference counts, and cached pages.

    free    without holder, and its contents have no meaning
    held    one or more requests read it (its reference count), published or not
    cached  without holder, but published: a later request with the same prefix can hold it again

free + held + cached = total, always. Only integers live here; the keys and values are the backend's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic


class PagePool:
    """A deterministic page allocator: the page given back last is taken first; cached pages are taken in order of last
    use."""

    def __init__(self, pages: int, evicted: Callable[[int], None] | None = None) -> None:
        """pages: their number. evicted: called with every cached page that is taken for another use."""
        self.total = pages
        self._evicted = evicted
        self._free = list(range(pages - 1, -1, -1))  # a stack; page 0 is taken first
        self._references = [0] * pages
        self._published = [False] * pages
        self._cached: OrderedDict[int, float] = OrderedDict()  # time when it was given back, the oldest first

    @property
    def available(self) -> int:
        """The number of pages that `take` can give now."""
        return len(self._free) + len(self._cached)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def cached(self) -> int:
        return len(self._cached)

    @property
    def held(self) -> int:
        return self.total - self.available

    def references(self, page: int) -> int:
        """The number of requests that hold the page."""
        return self._references[page]

    def is_published(self, page: int) -> bool:
        return self._published[page]

    def all_references(self) -> tuple[int, ...]:
        """The number of holders of every page, as a copy."""
        return tuple(self._references)

    def victims(self) -> tuple[tuple[int, float], ...]:
        """The cached pages in the order in which they are taken for something else, each with the moment (of the
        monotonic clock, seconds) at which its last holder gave it back."""
        return tuple(self._cached.items())

    def take(self) -> int:
        """A page for new contents, held once. The caller must have checked `available`."""
        assert self.available, "take() from a pool with no page left"
        if self._free:
            page = self._free.pop()
        else:
            page, _ = self._cached.popitem(last=False)
            self._published[page] = False
            if self._evicted is not None:
                self._evicted(page)
        self._references[page] = 1
        return page

    def share(self, page: int) -> None:
        """Add a holder to a page that is held or cached."""
        assert self._references[page] or page in self._cached, f"page {page} is free and cannot be shared"
        self._cached.pop(page, None)
        self._references[page] += 1

    def give(self, page: int) -> None:
        """Remove a holder. Without holders the page becomes free, or cached if it is published."""
        assert self._references[page] > 0, f"page {page} is given back without a holder"
        self._references[page] -= 1
        if self._references[page] == 0:
            if self._published[page]:
                self._cached[page] = monotonic()
            else:
                self._free.append(page)

    def publish(self, page: int) -> None:
        """The page's contents are written and can be found: keep them when it has no holder."""
        assert self._references[page] > 0 and not self._published[page], f"page {page} cannot be published"
        self._published[page] = True

    def retract(self, page: int) -> None:
        """The page's contents can no longer be found: a cached page becomes free."""
        assert self._published[page], f"page {page} is not published"
        self._published[page] = False
        if page in self._cached:
            del self._cached[page]
            self._free.append(page)

    def check(self, holders: dict[int, int] | None = None) -> None:
        """Assert the ledger. holders: page -> the number of page tables that contain it, which must equal its reference
        count."""
        free, cached = set(self._free), set(self._cached)
        held = {page for page, count in enumerate(self._references) if count}
        assert len(free) == len(self._free), "a page is free twice"
        assert len(free) + len(held) + len(cached) == self.total, (
            f"{len(free)} free + {len(held)} held + {len(cached)} cached is not {self.total}"
        )
        assert free | held | cached == set(range(self.total)), "a page is in two states, or in none"
        assert not any(self._published[page] for page in free), "a free page is published"
        assert all(self._published[page] for page in cached), "a cached page is not published"
        if holders is not None:
            assert holders == {page: self._references[page] for page in held}, "tables and reference counts differ"
