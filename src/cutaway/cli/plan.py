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
    rope_scaling: Annotated[str | None, typer.Option(help="Stretch the context, as for run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show the memory that a model needs: weights as the backend packs them, keys and values, buffers."""
    from cutaway.formats import open_model
    from cutaway.model import parse_rope_scaling
    from cutaway.ops.backends import open_backend
    from cutaway.planner import LoadOptions, plan_load, plan_rows, readable_bytes

    if requests < 1:
        raise ParameterError(f"requests is {requests}; it must be at least 1")
    scaling = parse_rope_scaling(rope_scaling) if rope_scaling else None
    options = LoadOptions(context, requests, cast("KVType", kv_k), cast("KVType", kv_v), scaling)
    backend = open_backend()
    with open_model(model_on_disk(model).path) as file:
        made = plan_load(file, options, backend).memory
    available = backend.free_memory()
    if as_json:
        rows = [{"what": what, "of": of, "bytes": count} for what, of, count in plan_rows(made)]
        write_json({"model": model, "total": made.total, "available": available, "context": made.context, "rows": rows})
        return
    lines = [[what, of, str(count), readable_bytes(count)] for what, of, count in plan_rows(made)]
    write_table(["for", "", "bytes", ""], lines, right=[2, 3])
    if available is not None:
        fits = "it fits" if made.total <= available else "it does not fit"
        say(f"{readable_bytes(available)} are available: {fits}")
