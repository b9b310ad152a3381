"""`cutaway plan`: the bytes of a model, before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from cutaway.cli.loading import DEFAULT_MODEL, model_on_disk
from cutaway.cli.terminal import say, write_json, write_table
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.ops.protocol import KVType


def plan(
    model: Annotated[str, typer.Argument(help="Name, path or source.")] = DEFAULT_MODEL,
    *,
    context: Annotated[int | None, typer.Option(help="Tokens of prompt and answer; else as for run.")] = None,
    requests: Annotated[int, typer.Option(help="How many fill the context at once.")] = 2,
    kv_k: Annotated[str, typer.Option(help="Type of keys: bf16, f32, int8, fp8.")] = "bf16",
    kv_v: Annotated[str, typer.Option(help="Type of values: the same.")] = "bf16",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Say what a model takes in memory: weights as the backend packs them, keys and values, buffers."""
    from cutaway.assemble import DEFAULT_CONTEXT
    from cutaway.formats import open_model
    from cutaway.model import read_spec
    from cutaway.ops.native import packed_bytes
    from cutaway.planner import available_memory, plan_memory, plan_rows, readable_bytes

    for name, value in (("context", context), ("requests", requests)):
        if value is not None and value < 1:
            raise ParameterError(f"{name} is {value}; it must be at least 1")
    for name, kind in (("kv_k", kv_k), ("kv_v", kv_v)):
        if kind not in ("bf16", "f32", "int8", "fp8"):
            raise ParameterError(f"{name} is {kind!r}; it must be bf16, f32, int8 or fp8")
    with open_model(model_on_disk(model).path) as file:
        spec = read_spec(file)
        made = plan_memory(
            file, spec, packed_bytes, context=context or min(spec.context, DEFAULT_CONTEXT), page_size=16,
            requests=requests, key_type=cast("KVType", kv_k), value_type=cast("KVType", kv_v),
        )  # fmt: skip
    available = available_memory()
    if as_json:
        rows = [{"what": what, "of": of, "bytes": count} for what, of, count in plan_rows(made)]
        write_json({"model": model, "total": made.total, "available": available, "context": made.context, "rows": rows})
        return
    lines = [[what, of, str(count), readable_bytes(count)] for what, of, count in plan_rows(made)]
    write_table(["for", "", "bytes", ""], lines, right=[2, 3])
    if available is not None:
        fits = "it fits" if made.total <= available else "it does not fit"
        say(f"{readable_bytes(available)} are available: {fits}")
