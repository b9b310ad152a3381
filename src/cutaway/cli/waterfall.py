"""`cutaway waterfall`: what requests of a server waited for before their first token."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.columns import WIDTH as COLUMNS
from cutaway.cli.columns import shortened
from cutaway.cli.terminal import write_json, write_table
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.xray.server_client import Target

WIDTH = 24
_CAUSES = {
    "changed": "an earlier prompt continued differently",
    "template_rerendered": "an earlier answer came back as other tokens than were generated",
    "evicted": "its pages had been taken for other requests",
    "partial_page": "the rest does not fill a page, and pages are shared whole",
    "other_adapter": "the same tokens were computed with another adapter",
    "off": "prompt_logprobs needs every token computed",
    "new": "no earlier prompt of this caller that is still known begins like this",
    "unknown": "why the pages were not there is not known",
}


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

    The server keeps the figures of the latest 128 requests and of the 32 slowest of the last hour. With REQUEST: also
    why the prefix cache did not have more of its prompt.
    """
    from cutaway.xray.server_client import target

    server = target(url)
    found = server.ask("/x/waterfalls", {"request": request, "last": last})
    if request is not None:
        found["prefix_miss"] = _miss(server, request)
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
    if request is not None:
        _write_miss(found["prefix_miss"])


def _miss(server: Target, request: str) -> dict[str, Any] | None:
    """None: its record is not kept any more, or not yet, while it runs."""
    try:
        answer: dict[str, Any] = server.ask(f"/x/requests/{request}/miss")
    except CutawayError as error:
        if error.code != "record_not_found":
            raise
        return None
    return answer


def _write_miss(found: Mapping[str, Any] | None) -> None:
    if found is None:
        print("\nprefix cache: unknown, there is no record of the request")
        return
    print(f"\nprefix cache: {found['cached_tokens']} of {found['prompt_tokens']} prompt tokens were found", end="")
    miss = found["miss"]
    if miss is None:
        print(f"; why not more is unknown: {found['unknown']}" if found["unknown"] else ", all that can be")
        return
    print(f"; the match ended at token {miss['at']}")
    print(f"  cause   {_CAUSES[miss['cause']]}")
    for name in ("before", "here", "there"):
        if miss[name]:
            print(f"  {name:7} {shortened(miss[name], COLUMNS - 10)}")
    if miss["price_ms"] is not None:
        print(f"  price   about {miss['price_ms']:.0f} ms, {miss['lost']} tokens were computed again")
    if miss["avoid"]:
        print(f"  remedy  {miss['avoid']}")


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
