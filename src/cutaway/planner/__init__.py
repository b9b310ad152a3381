"""What a model will cost in memory, from its header alone."""

from cutaway.planner.load import DEFAULT_CONTEXT, LoadOptions, LoadPlan, check_kv_types, plan_load
from cutaway.planner.memory import (
    PAGE_SIZE,
    GroupCost,
    MemoryPlan,
    TypeCost,
    check_memory,
    kv_pages,
    plan_rows,
    readable_bytes,
)
from cutaway.planner.outline import ModelOutline, outline_model

__all__ = [
    "DEFAULT_CONTEXT",
    "PAGE_SIZE",
    "GroupCost",
    "LoadOptions",
    "LoadPlan",
    "MemoryPlan",
    "ModelOutline",
    "TypeCost",
    "check_kv_types",
    "check_memory",
    "kv_pages",
    "outline_model",
    "plan_load",
    "plan_rows",
    "readable_bytes",
]
