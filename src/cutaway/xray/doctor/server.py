"""Checks of servers: of this user's by their state files, also when their processes are gone; of others by URL."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from cutaway.errors import CutawayError
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.machine import memory_kills
from cutaway.xray.doctor.subject import Subject
from cutaway.xray.server_client import Target, is_at, target
from cutaway.xray.server_state import ServerState, admin_token, servers

PATIENCE = 2.0
"""Seconds within which /health must be answered."""
RECENT = 24 * 3600.0
"""Seconds for which the end of a server is a finding."""


def ended(subject: Subject) -> Iterator[Diagnosis]:
    """Servers that were killed or failed, and have not been started again."""
    for state in _states(subject):
        end = state.ended
        if end is None or end.reason == "stopped" or time.time() - (end.at or state.began) > RECENT:
            continue
        log = f"; its log: {state.log}" if state.log else ""
        if end.reason == "killed":
            kills = [one.evidence for one in memory_kills(subject)]
            yield Diagnosis(
                "error", "server_killed", f"the server at {state.url} is gone without a word",
                f"process {state.pid} does not run, and left no reason{log}" + "".join(f"; {one}" for one in kills),
                "not known: want of memory, kill -9 or a restart of the machine leave the same trace",
                "dmesg or the container's status may have the reason; cutaway plan MODEL shows what it needs",
            )  # fmt: skip
        else:
            yield Diagnosis("error", "server_failed", f"the server at {state.url} has ended with an error",
                            f"{end.message or end.reason}{log}", "", "correct that and start it again")  # fmt: skip


def restarted(subject: Subject) -> Iterator[Diagnosis]:
    """Servers that run, but whose predecessor did not stop by itself."""
    for state in _states(subject):
        before = state.last_end
        if state.alive and before is not None and before.reason != "stopped" and time.time() - state.began <= RECENT:
            yield Diagnosis(
                "warning", "server_restarted", f"the server at {state.url} was started again after another one ended",
                f"the one before: {before.reason} {before.message}".rstrip(),
                "a supervisor starts it again, so that clients only see lost connections",
                "look for the reason above in its log, or in dmesg",
            )  # fmt: skip


def silent(subject: Subject) -> Iterator[Diagnosis]:
    """Whether each server that runs, or the one at the URL, answers, and has its models."""
    try:
        found = [target(subject.url)] if subject.url else [
            Target(state.url, admin_token(state)) for state in servers() if state.alive
        ]  # fmt: skip
    except CutawayError as error:
        yield Diagnosis("error", "url_invalid", "the URL is not one of a server", error.message)
        return
    for one in found:
        yield from _answers(one, ours=not subject.url)


def _answers(one: Target, *, ours: bool) -> Iterator[Diagnosis]:
    began = time.monotonic()
    try:
        one.ask("/health", seconds=PATIENCE)
    except CutawayError as error:
        waited = time.monotonic() - began
        yield Diagnosis(
            "error", "server_silent", f"the server at {one.url} does not answer that it is ready",
            f"/health: {error.message} (after {waited:.1f} s)",
            "its process runs: it loads a model, or stands still" if ours else "it is not there, or not ready",
            "cutaway ps, and its log" if ours else "correct host and port; cutaway ps lists those of this machine",
        )  # fmt: skip
        return
    try:
        listed: Any = one.ask("/v1/models", seconds=PATIENCE)["data"]
        failed = [(model["id"], model["error"]) for model in listed if model.get("error")]
    except CutawayError as error:
        yield Diagnosis("warning", "server_refuses", f"the server at {one.url} does not list its models",
                        f"{error.code}: {error.message}", "",
                        "set $CUTAWAY_API_KEY to a key of this server")  # fmt: skip
        return
    except (KeyError, TypeError, AttributeError):
        yield Diagnosis("error", "server_foreign", f"{one.url} is not a server of this kind",
                        "/v1/models has another form", "another program listens there",
                        "correct host and port")  # fmt: skip
        return
    for name, why in failed:
        yield Diagnosis("error", "model_failed", f"{one.url} cannot use its model {name}", str(why), "",
                        f"cutaway doctor {name}")  # fmt: skip


def _states(subject: Subject) -> list[ServerState]:
    """Those at the URL; without one, all."""
    with contextlib.suppress(CutawayError):  # an URL that is none: `silent` names it
        return [state for state in servers() if subject.url is None or is_at(state, target(subject.url).url)]
    return []
