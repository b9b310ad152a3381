"""The KV cache in integers: pools of pages, their holders, and the prefixes that they contain."""

from cutaway.cache.pool import PagePool
from cutaway.cache.prefix_misses import BREAK_REASONS, BreakReason, PrefixBreak
from cutaway.cache.prefixes import PrefixTree
from cutaway.cache.snapshot import GroupPages, PageMap, Published, RequestPages, Snapshot
from cutaway.cache.tables import GroupSize, PageTables

__all__ = [
    "BREAK_REASONS", "BreakReason", "GroupPages", "GroupSize", "PageMap", "PagePool", "PageTables", "PrefixBreak",
    "PrefixTree", "Published", "RequestPages", "Snapshot",
]  # fmt: skip
