"""Loading planned once: what a context, a scaling and types come to."""

from __future__ import annotations

import pytest

from cutaway.bench import synthetic_model
from cutaway.errors import ParameterError
from cutaway.model import parse_rope_scaling
from cutaway.ops.backends import open_backend
from cutaway.planner import DEFAULT_CONTEXT, LoadOptions, LoadPlan, check_kv_types, plan_load

TRAINED = 1024


def planned(options: LoadOptions) -> LoadPlan:
    file = synthetic_model("smollm2-135m")
    file.metadata = {**file.metadata, "llama.context_length": TRAINED}
    return plan_load(file, options, open_backend())


def test_the_layout_is_what_the_memory_was_counted_for() -> None:
    plan = planned(LoadOptions(context=1000, contexts=3, key_type="f32", value_type="int8"))
    assert plan.layout.total_bytes() + 64 == plan.memory.kv_bytes  # a pool ends with a line of its own
    assert [group.pages for group in plan.layout.groups] == [3 * 63]  # of 16 tokens
    assert (plan.memory.context, plan.memory.key_type, plan.memory.value_type) == (1000, "f32", "int8")


@pytest.mark.parametrize(
    ("scaling", "context"), [(None, TRAINED), ("linear:2", 2 * TRAINED), ("yarn:8", DEFAULT_CONTEXT)]
)
def test_a_scaling_stretches_the_context_that_is_planned_for(scaling: str | None, context: int) -> None:
    parsed = parse_rope_scaling(scaling) if scaling else None
    assert planned(LoadOptions(rope_scaling=parsed)).memory.context == context
    assert planned(LoadOptions(context=100_000, rope_scaling=parsed)).context == 100_000  # the engine warns


def test_what_cannot_be_loaded() -> None:
    with pytest.raises(ParameterError, match="kv_v is 'int4'; it must be one of f32, bf16, int8, fp8"):
        check_kv_types("bf16", "int4")
    for options in ({"key_type": "q8"}, {"context": 0}, {"contexts": 0}):
        with pytest.raises(ParameterError, match="it must be"):
            LoadOptions(**options)  # type: ignore[arg-type]
