"""The state of a page ledger at one moment, as plain values."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupPages:
    """Pages of one KV group; free + held + cached = total. window: tokens that its layers see (None: all)."""

    window: int | None
    total: int
    free: int
    held: int
    cached: int


@dataclass(frozen=True, slots=True)
class RequestPages:
    """What one request holds. tables: per group, its page at each position // page_size, -1 where it was given back.

    length: positions below it have a page; written: positions below it hold keys and values; published: pages from the
    first on that other requests can find.
    """

    tables: tuple[tuple[int, ...], ...]
    length: int
    written: int
    published: int


@dataclass(frozen=True, slots=True)
class Published:
    """Pages of one KV group that later requests can find, one entry each.

    page: its number. position: of its first token. tokens: how many lie in it. prefix: a hash of all tokens up to its
    last one; equal in every group. owner: its place in `PageMap.keys`: what the prefix was written under.
    """

    page: array[int]
    position: array[int]
    tokens: array[int]
    prefix: array[int]
    owner: array[int]


@dataclass(frozen=True, slots=True)
class PageMap:
    """All pages of one KV group. references: per page, how many requests hold it. victims: the cached pages, the one
    first that is taken next, each with the second of the monotonic clock at which it was given back. keys: what
    prefixes were written under (a caller, a salt, an adapter)."""

    references: tuple[int, ...]
    victims: tuple[tuple[int, float], ...]
    published: Published
    keys: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """groups, maps: in the ledger's order. requests: by the engine's number of the request. maps: only on request."""

    page_size: int
    groups: tuple[GroupPages, ...]
    requests: Mapping[int, RequestPages]
    maps: tuple[PageMap, ...] = ()
