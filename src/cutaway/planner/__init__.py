"""What a model will cost in memory, from its header alone."""

from cutaway.planner.load import DEFAULT_CONTEXT, LoadOptions, LoadPlan, check_kv_types, plan_load
from cutaway.planner.memory import (
    PAGE_SIZE,
    GroupCost,
    MemoryPlan,
    Packing,
    TypeCost,
    check_memory,
    kv_pages,
    plan_memory,
    plan_rows,
    readable_bytes,
)

__all__ = [
    "DEFAULT_CONTEXT",
    "PAGE_SIZE",
    "GroupCost",
    "LoadOptions",
    "LoadPlan",
    "MemoryPlan",
    "Packing",
    "TypeCost",
    "check_kv_types",
    "check_memory",
    "kv_pages",
    "plan_load",
    "plan_memory",
    "plan_rows",
    "readable_bytes",
]
