"""The KV cache as integers: pools of pages, who holds them, and which prefix they hold."""

from cutaway.cache.pool import PagePool
from cutaway.cache.prefix_misses import BREAK_REASONS, BreakReason, PrefixBreak
from cutaway.cache.prefixes import PrefixTree
from cutaway.cache.snapshot import GroupPages, PageMap, Published, RequestPages, Snapshot
from cutaway.cache.tables import GroupSize, PageTables

__all__ = [
    "BREAK_REASONS", "BreakReason", "GroupPages", "GroupSize", "PageMap", "PagePool", "PageTables", "PrefixBreak",
    "PrefixTree", "Published", "RequestPages", "Snapshot",
]  # fmt: skip
