"""GET /x/requests/{id}/explain on a served model: what it tells, to whom, how many at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import cutaway.server.inspect.explain as route
from server.serving import Running, bearer, config_for, running, until

pytestmark = pytest.mark.models
KEYS = ("first-key", "second-key")
ASKED = {"messages": [{"role": "user", "content": "Name three colours."}], "temperature": 0.8, "top_p": 0.9, "seed": 5}


@pytest.fixture(scope="module")
def served(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path, api_keys=KEYS)) as server:
        yield server


def answered(server: Running, key: str = KEYS[0], **fields: Any) -> tuple[str, Any]:
    """The x-request-id, and the reply."""
    body = ASKED | {"max_tokens": 12} | fields
    reply = server.client.post("/v1/chat/completions", json=body, headers=bearer(key))
    assert reply.status_code == 200, reply.text
    name = reply.headers["x-request-id"]
    until(lambda: server.client.get(f"/x/requests/{name}", headers=bearer(key)).status_code == 200)
    return name, reply.json()


def asked(server: Running, name: str, key: str, **query: Any) -> httpx.Response:
    return server.client.get(f"/x/requests/{name}/explain", params=query, headers=bearer(key))


def test_an_answer_is_explained_to_its_caller_and_the_admin_alone(served: Running) -> None:
    name, reply = answered(served, logprobs=True, top_logprobs=2)
    told = reply["choices"][0]["logprobs"]["content"]
    mine = asked(served, name, KEYS[0])
    assert mine.status_code == 200 and mine.headers["cache-control"] == "no-store"
    found = mine.json()
    assert found["text"] == reply["choices"][0]["message"]["content"]
    assert len(found["tokens"]) == 12 and found["stop"]["kind"] == "length" and not found["findings"]
    for one, live in zip(found["tokens"], told, strict=True):
        assert one["probability"] == pytest.approx(2.718281828459045 ** live["logprob"], rel=1e-6)
        assert one["redrawn"] == one["token"]
    admin = asked(served, name, served.service.admin.value).json()
    assert admin["tokens"] == found["tokens"]
    others = asked(served, name, KEYS[1])
    nobody = asked(served, "there-is-none", KEYS[1])
    assert others.status_code == nobody.status_code == 404
    assert others.json()["error"]["code"] == nobody.json()["error"]["code"] == "record_not_found"
    assert served.client.get(f"/x/requests/{name}/explain").status_code == 401
    assert found["text"] not in others.text


def test_one_token_another_answer_and_alternatives(served: Running) -> None:
    name, reply = answered(served, n=2)
    second = asked(served, name, KEYS[0], choice=1).json()
    assert (second["choice"], second["text"]) == (1, reply["choices"][1]["message"]["content"])
    assert asked(served, name, KEYS[0], choice=2).status_code == 404
    one = asked(served, name, KEYS[0], at=3, lead=4, tokens=json.dumps(["#28"])).json()
    assert [t["position"] for t in one["tokens"]] == [3] and one["leads"][0]["same_as_answer"] == 4
    assert 28 in [lead["token"] for lead in one["leads"]]
    part = asked(served, name, KEYS[0], first=2, last=4).json()
    assert [t["position"] for t in part["tokens"]] == [2, 3, 4]


@pytest.mark.parametrize(
    "query",
    [{"at": 12}, {"at": -1}, {"at": "x"}, {"best": 51}, {"lead": 257}, {"first": 5, "last": 4}, {"odd": 1},
     {"tokens": "x"}, {"tokens": '["two words here"]', "at": 1}, {"tokens": '["#99999999"]'}, {"tokens": "[1]"},
     {"at": "9" * 5000}, {"tokens": "[" * 2000}],
)  # fmt: skip
def test_wrong_queries(served: Running, query: dict[str, Any]) -> None:
    name, _ = answered(served)
    reply = asked(served, name, KEYS[0], **query)
    assert reply.status_code == 400 and reply.json()["error"]["message"], reply.text


def test_few_at_once_and_none_for_a_client_that_has_left(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = answered(served)
    begun, left = threading.Semaphore(0), threading.Event()

    def endless(*_: Any, stopped: Any, **__: Any) -> None:
        begun.release()
        until(stopped)
        left.set()
        raise route.RecordError("nobody waits")

    monkeypatch.setattr(route, "explain", endless)
    waiting = threading.Thread(target=lambda: impatient(served, name, 2.0))
    waiting.start()
    assert begun.acquire(timeout=10)
    again = asked(served, name, KEYS[0])
    assert (again.status_code, again.json()["error"]["code"]) == (429, "explaining")
    assert int(again.headers["retry-after"]) > 0
    waiting.join()
    assert left.wait(5), "it goes on for a client that has left"
    monkeypatch.undo()
    until(lambda: asked(served, name, KEYS[0]).status_code == 200)
    served.idle("smol")


def impatient(server: Running, name: str, seconds: float) -> None:
    with pytest.raises(httpx.TimeoutException):
        httpx.get(f"{server.url}/x/requests/{name}/explain", headers=bearer(KEYS[0]), timeout=seconds)
