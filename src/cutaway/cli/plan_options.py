"""The options of `cutaway plan`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cutaway.cli.options import option


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is planned for."""

    context: Annotated[
        int | None, option("--context", help="Tokens of prompt and answer. [the model's, 4096 at most]")
    ] = None
    requests: Annotated[int, option("--requests", help="How many fill the context at once. [2]")] = 2
    kv_k: Annotated[str, option("--kv-k", help="Type of keys: bf16, f32, int8, fp8. [bf16]")] = "bf16"
    kv_v: Annotated[str, option("--kv-v", help="Type of values: the same. [bf16]")] = "bf16"
    rope_scaling: Annotated[str | None, option("--rope-scaling", help="Stretch the context, as for run.")] = None
    weights: Annotated[
        str | None, option("--weights", help="Types of weights: Q4_K_M, Q8_0, BF16, ...; all: a row for each.")
    ] = None
    set: Annotated[
        list[str] | None, option("--set", help="Change a size, for instance kv_heads=64. May be repeated.")
    ] = None
    device: Annotated[str, option("--device", help="this, a100-80g, h100, rtx4090, 2x24gb, ... [this]")] = "this"
    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None
    ttft: Annotated[float | None, option("--ttft", help="Milliseconds that a first token may take.")] = None
    tpot: Annotated[float | None, option("--tpot", help="Milliseconds that each further token may take.")] = None
    lengths: Annotated[
        Path | None, option("--lengths", help="Lengths of requests: the server's log, a folder of records, or numbers.")
    ] = None
    svg: Annotated[Path | None, option("--svg", help="What contexts cost as a picture, into this file.")] = None
    verify: Annotated[bool, option("--verify", help="Load the model, fill its context, and compare.")] = False
    full: Annotated[bool, option("--full", help="With --verify: all contexts, types and requests; long.")] = False
    json: Annotated[bool, option("--json", help="One JSON object instead of tables.")] = False
