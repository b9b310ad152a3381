"""`cutaway ps`: the servers of this user, and where their memory is."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.terminal import say, write_json
from cutaway.errors import CutawayError, ParameterError

if TYPE_CHECKING:
    from cutaway.xray.server_client import Target
    from cutaway.xray.server_state import ServerState


def ps(
    *,
    pages: Annotated[bool, typer.Option("--pages", help="Show each page of keys and values as one character.")] = False,
    steps: Annotated[bool, typer.Option("--steps", help="Show the latest steps: batch, parts, times.")] = False,
    last: Annotated[int, typer.Option("--last", help="Number of steps that --steps shows.")] = 16,
    everything: Annotated[bool, typer.Option("--all", help="List servers that have ended as well.")] = False,
    url: Annotated[str | None, typer.Option("--url", help="Ask this server instead of those that run here.")] = None,
    watch: Annotated[float | None, typer.Option("--watch", help="Repeat after this many seconds, 1 or more.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of tables.")] = False,
) -> None:
    """List the servers of this user and where their memory is: predicted, measured, difference.

    Refused and preempted requests are listed with the figures that caused it. A server makes the views
    only while they are watched, at most twice a second (docs/seeing.md).
    """
    if watch is not None and watch < 1:
        raise ParameterError(f"watch is {watch}; it must be at least 1")
    if not 1 <= last <= 256:
        raise ParameterError(f"last is {last}; it must be 1 to 256")
    views = [name for name, wanted in (("pages", pages), ("steps", steps)) if wanted] or ["memory"]
    while True:
        found = _servers(url, views, last, everything)
        if as_json:
            write_json({"servers": found})
        else:
            _write(found, views)
        if watch is None:
            return
        time.sleep(watch)


def _servers(url: str | None, views: list[str], last: int, everything: bool) -> list[dict[str, Any]]:
    """Each server: its state, and what it shows of itself or why it does not."""
    from cutaway.xray.server_client import Target, target
    from cutaway.xray.server_state import admin_token, servers

    if url is not None:
        return [{"state": None, "url": url, **_shown(target(url), views, last)}]
    found: list[dict[str, Any]] = []
    for state in servers():
        if state.alive:
            one = Target(state.url, admin_token(state))
            found.append({"state": _state(state), "url": state.url, **_shown(one, views, last)})
        elif everything:
            found.append({"state": _state(state), "url": state.url})
    return found


def _state(state: ServerState) -> dict[str, Any]:
    return {**dataclasses.asdict(state), "alive": state.alive, "end": state.ended and dataclasses.asdict(state.ended)}


def _shown(server: Target, views: list[str], last: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for view in views:
        try:
            found[view] = _steps(server, last) if view == "steps" else server.ask(f"/x/{view}")
        except CutawayError as error:
            found["error"] = {"code": error.code, "message": str(error)}
    return found


def _steps(server: Target, last: int) -> Any:
    """Steps are kept only from the first look on: if there are none, look again when some have passed."""
    found = server.ask("/x/steps", {"last": last})
    if any(model.get("steps") for model in found["models"]):
        return found
    time.sleep(1.2)
    return server.ask("/x/steps", {"last": last})


def _write(found: list[dict[str, Any]], views: list[str]) -> None:
    from cutaway.cli.ps_text import write_memory, write_pages, write_server, write_steps

    writers = {"memory": write_memory, "pages": write_pages, "steps": write_steps}
    if not found:
        say("no server of this user runs (--all lists those that have ended)")
    for number, server in enumerate(found):
        if number:
            print()
        write_server(server)
        for view in views:
            if view in server:
                writers[view](server[view])
