"""What a model will cost in memory, from its header alone."""

from cutaway.planner.load import DEFAULT_CONTEXT, LoadOptions, LoadPlan, check_kv_types, plan_load
from cutaway.planner.machine import available_memory
from cutaway.planner.memory import (
    PAGE_SIZE,
    STEP_ROWS,
    STEP_TOKENS,
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
    "STEP_ROWS",
    "STEP_TOKENS",
    "GroupCost",
    "LoadOptions",
    "LoadPlan",
    "MemoryPlan",
    "Packing",
    "TypeCost",
    "available_memory",
    "check_kv_types",
    "check_memory",
    "kv_pages",
    "plan_load",
    "plan_memory",
    "plan_rows",
    "readable_bytes",
]
