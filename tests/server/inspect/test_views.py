"""What /x/pages, /x/steps and /x/live show: to an admin everything, to a key its own, to nobody else anything."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutaway.server.inspect.live import _delta
from cutaway.server.inspect.watching import LIVE
from cutaway.xray.page_view import COLUMNS
from server.serving import CHAT, Running, bearer, config_for, running, until

KEYS = ("first-key", "second-key")
STORY: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Tell a long story about a lighthouse."}],
    "max_tokens": 400,
}


@pytest.fixture(scope="module")
def keyed(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path, api_keys=KEYS)) as server:
        yield server


def ask(server: Running, path: str, key: str | None = None) -> Any:
    reply = server.client.get(path, headers=bearer(key or server.service.admin.value))
    assert reply.status_code == 200, reply.text
    assert reply.headers["cache-control"] == "no-store"
    return reply.json()


class Answering:
    """A request of a key, whose answer is being made."""

    def __init__(self, server: Running, key: str, id: str, **fields: Any) -> None:
        self.body = STORY | {"stream": True, "ignore_eos": True} | fields
        self.headers = bearer(key) | {"x-request-id": id}
        self._server, self._began, self._leave = server, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Answering:
        self._thread.start()
        assert self._began.wait(60)
        return self

    def _read(self) -> None:
        with self._server.client.stream("POST", CHAT, json=self.body, headers=self.headers) as reply:
            for line in reply.iter_lines():
                if "content" in line:
                    self._began.set()
                if self._leave.is_set():
                    return

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self._thread.join(60)


def test_each_key_sees_its_own_and_the_admin_all(keyed: Running) -> None:
    with Answering(keyed, KEYS[0], "of-one", user="x"), Answering(keyed, KEYS[1], "of-two"):
        ask(keyed, "/x/steps")  # from here on steps are kept
        until(lambda: len(ask(keyed, "/x/steps")["models"][0]["steps"]) > 4)
        pages = {key: ask(keyed, "/x/pages", key) for key in (None, *KEYS)}
        steps = {key: ask(keyed, "/x/steps", key) for key in (None, *KEYS)}
    (whole,) = pages[None]["models"]
    assert {r["request"] for r in whole["requests"]} == {"of-one", "of-two"} and len(whole["groups"]) == 1
    (group,) = whole["groups"]
    counts = group["counts"]
    assert counts["free"] + counts["held"] + counts["cached"] == counts["total"] == len(group["map"])
    assert group["map"].count(".") == counts["free"] and {"A", "B"} <= set(group["map"])
    for key, mine, other in ((KEYS[0], "of-one", "of-two"), (KEYS[1], "of-two", "of-one")):
        caller = ask(keyed, "/x/access", key)["caller"]
        (seen,) = pages[key]["models"]
        assert [(r["request"], r["caller"]) for r in seen["requests"]] == [(mine, caller)]
        (own,) = seen["groups"]
        assert own["counts"] is None and own["page"] == list(range(len(own["page"])))
        assert set(own["victim"]) == {None} and set(own["map"]) <= {"A", "c"}
        held = [i for i, r in enumerate(whole["requests"]) if r["request"] == mine]
        assert own["map"].count("A") == sum(held == requests for requests in group["requests"])
        told = json.dumps([pages[key], steps[key]])
        assert other not in told and ask(keyed, "/x/access", KEYS[mine == "of-one"])["caller"] not in told
        (log,) = steps[key]["models"]
        assert log["steps"] and log["steps_so_far"] is None
        assert all_of(log, "waiting") == all_of(log, "predicted_forward_ms") == {None}
        assert all(s["tokens"] == sum(c["tokens"] for c in s["chunks"]) for s in log["steps"])
        assert {c["request"] for s in log["steps"] for c in s["chunks"]} == {mine}
    (log,) = steps[None]["models"]
    assert 2 in all_of(log, "tokens")
    assert {c["request"] for s in log["steps"] for c in s["chunks"]} == {"of-one", "of-two"}
    assert [s["step"] for s in log["steps"]] == sorted({s["step"] for s in log["steps"]})
    assert all(set(s["milliseconds"]) == {"plan", "batch", "forward", "sample"} for s in log["steps"])


def all_of(log: Any, name: str) -> set[Any]:
    return {step[name] for step in log["steps"]}


def test_what_an_answer_left_is_its_callers(keyed: Running) -> None:
    prefixes = set(ask(keyed, "/x/pages", KEYS[0])["models"][0]["groups"][0]["prefix"])
    asked = STORY | {"max_tokens": 5, "messages": [{"role": "system", "content": "Be odd."}, *STORY["messages"]]}
    reply = keyed.client.post(CHAT, json=asked, headers=bearer(KEYS[0]))
    assert reply.status_code == 200
    keyed.idle("smol")
    until(lambda: "A" not in ask(keyed, "/x/pages")["models"][0]["groups"][0]["map"])
    until(lambda: len(set(ask(keyed, "/x/pages", KEYS[0])["models"][0]["groups"][0]["prefix"]) - prefixes) >= 2)
    (group,) = ask(keyed, "/x/pages", KEYS[0])["models"][0]["groups"]
    assert group["page"] and set(group["state"]) == {"c"} and group["position"].count(0) >= 1
    assert all(idle >= 0 for idle in group["idle_s"]) and all(len(prefix) == 16 for prefix in group["prefix"])
    (other,) = ask(keyed, "/x/pages", KEYS[1])["models"][0]["groups"]
    new = set(group["prefix"]) - prefixes
    assert len(new) >= 2 and not new & set(other["prefix"])
    (whole,) = ask(keyed, "/x/pages")["models"][0]["groups"]
    assert whole["map"].count("!") == 1 and whole["victim"].count(0) == 1


def test_a_view_names_the_model_and_the_count_that_is_wanted(keyed: Running) -> None:
    assert [m["model"] for m in ask(keyed, "/x/steps?model=smol&last=1")["models"]] == ["smol"]
    for path, status in (
        ("/x/pages?model=other", 404), ("/x/steps?last=0", 400), ("/x/steps?last=9999", 400),
        ("/x/steps?last=%C2%B2", 400), ("/x/live?every_ms=10", 400), ("/x/live?show=memory,pages", 400),
        ("/x/live?model=../x", 404),
    ):  # fmt: skip
        reply = keyed.client.get(path, headers=bearer(keyed.service.admin.value))
        assert reply.status_code == status, (path, reply.text)
    for path in ("/x/pages", "/x/steps", "/x/live"):
        assert keyed.client.get(path).status_code == 401


def live(server: Running, key: str, count: int, query: str = "") -> list[Any]:
    """The first events of a stream of what moves."""
    found = []
    with server.client.stream("GET", f"/x/live{query}", headers=bearer(key)) as reply:
        assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/event-stream")
        for line in reply.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == count:
                    break
    return found


def _named(event: Any) -> int:
    """The pages that an event tells of."""
    return len(event["groups"][0]["page"])


def _in_use(event: Any) -> int:
    """The pages that held or cached something at that time."""
    counts = event["groups"][0]["counts"]
    return int(counts["held"] + counts["cached"])


def test_what_moves_comes_as_deltas_and_only_ones_own(keyed: Running) -> None:
    with Answering(keyed, KEYS[0], "live-one"), Answering(keyed, KEYS[1], "live-two"):
        whole, *later = live(keyed, keyed.service.admin.value, 4, "?show=pages")
        assert whole["whole"] and not any(event["whole"] for event in later)
        assert _named(whole) == _in_use(whole) and max(map(_named, later)) > 0
        assert all(_named(event) < _in_use(event) for event in later), "a delta names what changed"
        events = live(keyed, KEYS[0], 6)
        assert {event["type"] for event in events} == {"pages", "steps"}
        assert "live-one" in json.dumps(events) and "live-two" not in json.dumps(events)
        steps = [step["step"] for event in events if event["type"] == "steps" for step in event["steps"]]
        assert steps == sorted(set(steps)) and len(steps) > 4
    until(lambda: keyed.service.watching.live == 0)


def test_deltas_put_together_are_the_whole() -> None:
    def group(rows: dict[int, str]) -> dict[str, Any]:
        columns = {name: list(rows.values()) for name in COLUMNS}
        return {"window": None, "page_bytes": 1, "counts": None, **columns, "page": list(rows)}

    def by_page(rows: dict[int, str]) -> dict[int, tuple[Any, ...]]:
        return {page: (row,) for page, row in rows.items()}

    before, now = {1: "a", 2: "b", 5: "c"}, {1: "a", 2: "x", 7: "d"}
    delta = _delta(group(now), by_page(before), by_page(now))
    known = dict(before)
    known.update(zip(delta["page"], delta["state"], strict=True))
    assert {page: row for page, row in known.items() if page not in delta["freed"]} == now
    assert delta["page"] == [2, 7] and delta["freed"] == [5]


def test_streams_are_few_and_end_when_the_server_does(smollm2_path: Path) -> None:
    with running(config_for(smollm2_path, grace=20.0)) as server:
        admin = bearer(server.service.admin.value)

        async def open_all() -> list[int]:
            async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
                requests = [client.build_request("GET", "/x/live", headers=admin) for _ in range(LIVE + 1)]
                replies = [await client.send(request, stream=True) for request in requests]
                statuses = [reply.status_code for reply in replies]
                server.service.admission.drain()
                for reply in replies:
                    await asyncio.wait_for(reply.aread(), 10)
                return statuses

        assert asyncio.run(open_all()) == [200] * LIVE + [429]
        until(lambda: server.service.watching.live == 0)


def test_waterfalls_add_up_and_are_ones_own(keyed: Running) -> None:
    for key, id in zip(KEYS, ("fall-one", "fall-two"), strict=True):
        headers = bearer(key) | {"x-request-id": id}
        assert keyed.client.post(CHAT, json=STORY | {"max_tokens": 3}, headers=headers).status_code == 200
    all_known = ask(keyed, "/x/waterfalls?last=128")
    assert {"fall-one", "fall-two"} <= {one["request"] for one in all_known["latest"]}
    for one in all_known["slowest"]:
        assert list(one["parts_ms"]) == all_known["parts"] and one["parts_ms"]["prefill"] > 1
        assert abs(sum(one["parts_ms"].values()) - one["ttft_ms"]) < 0.01
    own = ask(keyed, "/x/waterfalls", KEYS[0])
    assert "fall-one" in json.dumps(own) and "fall-two" not in json.dumps(own)
    assert [w["request"] for w in ask(keyed, "/x/waterfalls?request=fall-one", KEYS[0])["latest"]] == ["fall-one"]
    assert keyed.client.get("/x/waterfalls?request=fall-two", headers=bearer(KEYS[0])).status_code == 404


def test_a_model_that_died_is_named_and_the_rest_is_shown(smollm2_path: Path) -> None:
    with running(config_for(smollm2_path)) as server:
        server.core("smol").close()
        (seen,) = ask(server, "/x/pages")["models"]
        assert seen["model"] == "smol" and seen["error"]["code"] == "engine_failed"
