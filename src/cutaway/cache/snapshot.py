"""What a ledger of pages holds at one moment: plain values, for whoever looks at it."""

from __future__ import annotations

from collections.abc import Mapping
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
class Snapshot:
    """groups: in the ledger's order. requests: by the engine's number of the request."""

    page_size: int
    groups: tuple[GroupPages, ...]
    requests: Mapping[int, RequestPages]
