"""Page tables: the pages with the keys and values of each request, in every KV group.

    position      0 ........ 15 | 16 ....... 31 | 32 ....... 47 | 48 ....
    full group    page 3        | page 0        | page 7        | page 8
    window group  -1            | -1            | page 2        | page 5      (pages outside the window are given back)

A request is opened with the longest prefix that is already written, extended by whole pages before a step, updated
with what the step has written (full pages are published, pages that left a window are given back), and closed (its
part-filled last page becomes a tail, in which the next turn of a chat can continue).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import sub

from cutaway.cache.pool import PagePool
from cutaway.cache.prefix_misses import PrefixBreak
from cutaway.cache.prefixes import Node, PrefixTree
from cutaway.cache.snapshot import GroupPages, PageMap, RequestPages, Snapshot

TAILS = 16  # after one node: they are compared one by one


@dataclass(frozen=True, slots=True)
class GroupSize:
    """window: tokens that a layer of this group attends to, including its own (None: all). pages: the number of pages
    of the group."""

    window: int | None
    pages: int


@dataclass(slots=True)
class _Held:
    """What one request holds. Per group: its table, and the index of the first page that it still has."""

    node: Node
    tables: list[array[int]]
    first: list[int]
    published: int = 0  # pages that are in the tree, or were found there
    length: int = 0  # positions below it have a page
    written: int = 0  # positions below it are written
    broke: PrefixBreak | None = None  # why no more of it was found


class PageTables:
    """The ledger of a cache: one pool per KV group, one table per group and request, one tree of prefixes.

    sharing: find and publish prefixes; without it every request computes all its tokens.
    """

    def __init__(self, groups: Sequence[GroupSize], page_size: int, *, sharing: bool = True) -> None:
        assert groups and page_size > 0
        self.groups = tuple(groups)
        self.page_size = page_size
        self.sharing = sharing
        self._tree = PrefixTree(len(groups), page_size)
        self.pools = tuple(PagePool(g.pages, partial(self._tree.detach, i)) for i, g in enumerate(groups))
        self._held: dict[int, _Held] = {}

    @property
    def capacity(self) -> int:
        """The maximum length of a request that has all pages to itself."""
        return min(self._group_capacity(group) for group in self.groups)

    def _group_capacity(self, group: GroupSize) -> int:
        everything = group.pages * self.page_size
        if group.window is not None and group.pages > self._pages_over(group.window - 1):
            return 1 << 62  # one more token always fits beside its window
        return everything

    def _pages_over(self, tokens: int) -> int:
        """The maximum number of pages for so many consecutive positions."""
        return 0 if tokens <= 0 else (tokens + self.page_size - 2) // self.page_size + 1

    def _first_needed(self, group: GroupSize, length: int) -> int:
        """Index of the first page that a token at position `length` or later attends to."""
        return 0 if group.window is None else max(0, length - group.window + 1) // self.page_size

    # --- a request's life -------------------------------------------------------------------------------------------
    def open(self, request: int, tokens: Sequence[int], *, limit: int | None = None, key: Hashable = None) -> int:
        """Begin a request with the longest written prefix of its tokens. Returns the number of tokens that it covers.

        limit: cover at most so many; never all, because the logits of the last token are needed.
        """
        assert request not in self._held, f"request {request} is already open"
        limit = min(len(tokens) - 1, len(tokens) if limit is None else limit)
        known = list(self._tree.walk(key, tokens[: max(limit, 0)])) if self.sharing else []
        nodes = self._longest(known)
        node = nodes[-1] if nodes else self._tree.root(key) if self.sharing else Node(None, (), 0)
        length = len(nodes) * self.page_size
        held = _Held(node, [], [], len(nodes), length, length)
        for index, (group, pool) in enumerate(zip(self.groups, self.pools, strict=True)):
            first = self._first_needed(group, length)
            table = array("i", [-1] * first + [node.pages[index] for node in nodes[first:]])
            for page in table[first:]:
                pool.share(page)
            held.tables.append(table)
            held.first.append(first)
        self._held[request] = held
        if self.sharing:
            lacking = len(nodes) < len(known)
            held.broke = self._tree.find_break(node, tokens[: max(limit, 0)], length, lacking=lacking)
            self._take_tail(held, tokens[length : max(limit, length)])
        return held.length

    def broke(self, request: int) -> PrefixBreak | None:
        """The first token that was not found when the request was opened, and the reason; None if all were that can be,
        or if the request is closed."""
        held = self._held.get(request)
        return None if held is None else held.broke

    def _take_tail(self, held: _Held, tokens: Sequence[int]) -> None:
        """Take over the part-filled page of a request that ended, if it begins like `tokens`. No other request holds
        it."""
        tail, common = self._tree.longest_tail(held.node, tokens)
        if tail is None:
            return
        for index, (page, pool, table) in enumerate(zip(tuple(tail.pages), self.pools, held.tables, strict=True)):
            pool.share(page)
            pool.retract(page)
            self._tree.detach(index, page)
            table.append(page)
        held.length = held.written = held.length + common

    def _longest(self, nodes: list[Node]) -> list[Node]:
        """The longest usable beginning of `nodes`: full groups have all its pages, window groups their window."""
        full = [index for index, group in enumerate(self.groups) if group.window is None]
        windows = [index for index, group in enumerate(self.groups) if group.window is not None]
        count = next((i for i, node in enumerate(nodes) if any(node.pages[g] == -1 for g in full)), len(nodes))
        while count and not all(
            node.pages[index] != -1
            for index in windows
            for node in nodes[self._first_needed(self.groups[index], count * self.page_size) : count]
        ):
            count -= 1
        return nodes[:count]

    def room(self, request: int, limit: int) -> int:
        """The number of tokens by which the request can be extended now, at most `limit`."""
        held = self._held[request]
        for pool, table in zip(self.pools, held.tables, strict=True):
            limit = min(limit, (len(table) + pool.available) * self.page_size - held.length)
        return limit

    def need(self, request: int, length: int) -> tuple[int, ...]:
        """Pages that the request still needs in each group to reach `length`.

        A window group gives pages back on the way: it needs only its window and a page to write to.
        """
        held, needs = self._held[request], []
        for group, table, first in zip(self.groups, held.tables, held.first, strict=True):
            pages = -(-length // self.page_size) - len(table)
            if group.window is not None:
                pages = min(pages, self._pages_over(group.window - 1) + 1 - (len(table) - first))
            needs.append(max(0, pages))
        return tuple(needs)

    @property
    def available(self) -> tuple[int, ...]:
        """Pages that can be taken now, in each group."""
        return tuple(pool.available for pool in self.pools)

    def extend(self, request: int, count: int) -> None:
        """Hold pages for `count` more tokens. The caller must have checked `room`."""
        held = self._held[request]
        held.length += count
        for pool, table in zip(self.pools, held.tables, strict=True):
            while len(table) * self.page_size < held.length:
                table.append(pool.take())

    def written(self, request: int, tokens: Sequence[int], length: int | None = None) -> None:
        """The positions to which the request was extended are written. tokens: its tokens, at least as many.

        length: only so many count; pages beyond are given back and cannot be found.
        """
        held = self._held[request]
        if length is not None and length != held.length:
            self._shorten(held, length)
        held.written = held.length
        if self.sharing:
            self._publish(held, tokens)
        for index, (group, pool, table) in enumerate(zip(self.groups, self.pools, held.tables, strict=True)):
            if group.window is None:
                continue
            first = min(self._first_needed(group, held.length), len(table))
            for i in range(held.first[index], first):
                pool.give(table[i])
                table[i] = -1
            held.first[index] = max(first, held.first[index])

    def _shorten(self, held: _Held, length: int) -> None:
        assert held.published * self.page_size <= length <= held.length, "what was published cannot be taken back"
        held.length = length
        for pool, table in zip(self.pools, held.tables, strict=True):
            while len(table) > -(-length // self.page_size):
                pool.give(table.pop())

    def _publish(self, held: _Held, tokens: Sequence[int]) -> None:
        """Publish the pages that became full. If the tree has an equal page, hold that one instead."""
        size = self.page_size
        while (held.published + 1) * size <= held.length:
            at = held.published
            held.node = self._tree.extend(held.node, tuple(tokens[at * size : (at + 1) * size]))
            held.published += 1
            for index, (pool, table) in enumerate(zip(self.pools, held.tables, strict=True)):
                page, known = table[at], held.node.pages[index]
                if page == -1:
                    continue
                if known == -1:
                    self._tree.attach(held.node, index, page)
                    pool.publish(page)
                else:
                    pool.share(known)
                    pool.give(page)
                    table[at] = known

    def close(self, request: int, tokens: Sequence[int] = ()) -> None:
        """Give everything back. Later pages go first, so that a prefix is evicted from its end.

        tokens: the request's, to keep the written part of its last page as a tail; none: do not keep it.
        """
        held = self._held.pop(request)
        if self.sharing:
            self._publish_tail(held, tokens)
        for pool, table in zip(self.pools, held.tables, strict=True):
            for page in reversed(table):
                if page != -1:
                    pool.give(page)

    def _publish_tail(self, held: _Held, tokens: Sequence[int]) -> None:
        at = held.published
        tail = tuple(tokens[at * self.page_size : held.written])
        if not tail:
            return
        if len(held.node.tails) >= TAILS:
            self._tree.remember(held.node, tail)
            return
        node = self._tree.extend(held.node, tail)
        if max(node.pages) == -1:  # otherwise another request has left the same
            for index, (pool, table) in enumerate(zip(self.pools, held.tables, strict=True)):
                self._tree.attach(node, index, table[at])
                pool.publish(table[at])

    # --- looking ----------------------------------------------------------------------------------------------------
    def table(self, request: int, group: int) -> array[int]:
        """The request's pages in a group, by position // page_size; -1 where the page was given back. Not a copy."""
        return self._held[request].tables[group]

    def held(self, request: int) -> tuple[int, ...]:
        """Pages that the request holds, in each group."""
        return tuple(map(sub, map(len, self._held[request].tables), self._held[request].first))

    def length(self, request: int) -> int:
        """Positions below this have a page (or had one, in a window group)."""
        return self._held[request].length

    def snapshot(self, *, pages: bool = False) -> Snapshot:
        """All of this moment, as copies. Only the thread that writes the ledger may ask, between two steps.

        pages: also a map of every group's pages; some microseconds for each page that is published.
        """
        pools = list(zip(self.groups, self.pools, strict=True))
        groups = [GroupPages(g.window, pool.total, pool.free, pool.held, pool.cached) for g, pool in pools]
        held = {
            request: RequestPages(tuple(map(tuple, held.tables)), held.length, held.written, held.published)
            for request, held in self._held.items()
        }
        mapped = self.pools if pages else ()
        maps = [PageMap(p.all_references(), p.victims(), *self._tree.published(i)) for i, p in enumerate(mapped)]
        return Snapshot(self.page_size, tuple(groups), held, tuple(maps))

    def __contains__(self, request: int) -> bool:
        return request in self._held

    def forget(self) -> None:
        """Drop every published prefix, for instance because the weights behind it changed."""
        for index, pool in enumerate(self.pools):
            for page in sorted(self._tree.pages(index)):
                self._tree.detach(index, page)
                pool.retract(page)
        self._tree.forget()

    def check(self) -> None:
        """Assert every ledger: free + held + cached = total in each group, and tables agree with reference counts."""
        for index, pool in enumerate(self.pools):
            pool.check(Counter(p for h in self._held.values() for p in h.tables[index] if p != -1))
            published = self._tree.pages(index)
            assert all(pool.is_published(page) == (page in published) for page in range(pool.total))
        for held in self._held.values():
            for index, (group, table) in enumerate(zip(self.groups, held.tables, strict=True)):
                needed = self._first_needed(group, held.length)
                assert len(table) == -(-held.length // self.page_size), "a table and its length differ"
                assert all(page == -1 for page in table[: held.first[index]])
                assert all(page != -1 for page in table[max(held.first[index], 0) :]) and held.first[index] <= needed
