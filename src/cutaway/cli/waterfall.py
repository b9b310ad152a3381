"""`cutaway waterfall`: what requests of a server waited for before their first token."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from cutaway.cli.terminal import write_json, write_table

WIDTH = 24


def waterfall(
    request: Annotated[
        str | None, typer.Argument(metavar="REQUEST", help="An x-request-id; none: the slowest and the latest.")
    ] = None,
    *,
    last: Annotated[int, typer.Option("--last", help="Number of requests in each table.")] = 10,
    url: Annotated[str | None, typer.Option("--url", help="Ask this server instead of the one that runs here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of tables.")] = False,
) -> None:
    """Show the time to the first token in parts: arrive, prepare, queue, prefill, deliver.

    The server keeps the figures of the latest 128 requests and of the 32 slowest of the last hour.
    """
    from cutaway.xray.server_client import target

    found = target(url).ask("/x/waterfalls", {"request": request, "last": last})
    if as_json:
        write_json(found)
        return
    for title in ("slowest", "latest"):
        if found[title]:
            print(f"{title}:")
            _write(found[title], found["parts"])
    if not found["slowest"] and not found["latest"]:
        print("no request has had its first token yet")
        return
    print("times in ms; a arrive, p prepare (template, tokenizing, grammar), . queue, # prefill, d deliver")


def _write(found: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> None:
    from cutaway.xray.waterfall import picture

    longest = max(one["ttft_ms"] for one in found)
    rows = [
        [
            time.strftime("%H:%M:%S", time.localtime(one["at"])), one["request"][:20], f"{one['ttft_ms']:.0f}",
            *(f"{one['parts_ms'][name]:.0f}" for name in parts),
            f"{one['cached_tokens']}/{one['prompt_tokens']}", picture(one["parts_ms"], longest, WIDTH),
        ]
        for one in found
    ]  # fmt: skip
    write_table(["at", "request", "TTFT", *parts, "cached", ""], rows, right=range(2, 9))
