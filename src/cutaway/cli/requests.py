"""`cutaway requests`: the last requests of servers that run, and of `run` and `chat`."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any

from cutaway.cli.options import option
from cutaway.cli.terminal import say, write_json, write_table


def requests(
    failed: Annotated[bool, option("--failed", help="Only errors and requests that were cancelled.")] = False,
    slow: Annotated[bool, option("--slow", help="The slowest first, instead of the latest.")] = False,
    model: Annotated[str | None, option("--model", "-m", help="Only of this model.")] = None,
    since: Annotated[str | None, option("--since", help="90s, 10m, 2h, 1d ago, or a date.")] = None,
    limit: Annotated[int, option("--limit", help="At most so many. [20]")] = 20,
    url: Annotated[str | None, option("--url", help="Only of the server at this URL.")] = None,
    json: Annotated[bool, option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """List the last requests: of all servers of this user that run, and of run and chat.

    A server keeps token ids in memory, 64 MiB and an hour at most; run and chat keep their last 20 answers on disk.
    It costs a server under 1 % (docs/seeing.md). With a key in $CUTAWAY_API_KEY, --url lists that key's own requests.
    """
    from cutaway.xray.own_records import own_records
    from cutaway.xray.request_list import Wanted, listed, parse_since
    from cutaway.xray.server_client import target, targets

    wanted = Wanted(failed, slow, model, None if since is None else parse_since(since), None, limit)
    query = {"failed": _flag(failed), "slow": _flag(slow), "model": model, "since": since, "limit": limit}
    found = [] if url is not None else listed(own_records(), wanted)
    asked = [target(url)] if url is not None else targets()
    for server in asked:
        told = server.ask("/x/requests", query)
        found += [{**line, "server": server.url} for line in told["requests"]]
    order = "total_ms" if slow else "began"
    found = sorted(found, key=lambda line: -(line[order] or 0))[:limit]
    if json:
        write_json({"record": "requests", "requests": found})
    elif found:
        _write(found)
    else:
        say(f"no requests are kept ({len(asked)} servers run)")


def _flag(value: bool) -> str | None:
    return "true" if value else None


HEADINGS = ("began", "request", "model", "in", "cached", "out", "ttft ms", "total ms", "end")


def _write(found: list[dict[str, Any]]) -> None:
    write_table(HEADINGS, [_line(one) for one in found], right=(3, 4, 5, 6, 7))
    if any(one["failed"] for one in found):
        say("[! failed or cancelled]")
    say("[cutaway replay REQUEST runs one again; cutaway explain REQUEST shows why each token came]")


def _line(one: dict[str, Any]) -> list[str]:
    place = "" if one["choice"] == one["prompt"] == 0 else f" {one['prompt']}.{one['choice']}"
    name = _short(one["request"], 24) + place
    end = one["error"] or one["end"]
    return [
        _moment(one["began"]), name, _short(one["model"], 16), str(one["prompt_tokens"]),
        str(one["cached"]), str(one["tokens"]), _ms(one["ttft_ms"]), _ms(one["total_ms"]),
        f"! {end}" if one["failed"] else end,
    ]  # fmt: skip


def _moment(began: float) -> str:
    """The time, with the day where it is not today."""
    today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", time.localtime(began))
    return datetime.fromtimestamp(began).strftime("%H:%M:%S" if today else "%m-%d %H:%M")


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _short(text: str, width: int) -> str:
    """Its beginning and its end, and a mark for what cannot be printed: a client chose it, and a column is narrow."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain if len(plain) <= width else f"{plain[: width - 9]}…{plain[-8:]}"
