"""What a model will cost in memory, from its header alone."""

from cutaway.planner.machine import available_memory
from cutaway.planner.memory import (
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
    "GroupCost",
    "MemoryPlan",
    "Packing",
    "TypeCost",
    "available_memory",
    "check_memory",
    "kv_pages",
    "plan_memory",
    "plan_rows",
    "readable_bytes",
]
