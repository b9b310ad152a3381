"""What one caller can learn of another: nothing of its prompts, its answers, its streams."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutaway.config import ServerConfig
from cutaway.server.generation.caught_warnings import heard
from cutaway.server.routes import ROUTES
from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, running

KEYS = ("victim-key", "attacker-key", "bystander-key")
SECRET = [11, 23, 35, 47, 59, 61, 73, 85, 97, 109, 111, 123, 135, 147, 159, 161, 173, 185, 197, 209, 211, 223]


@pytest.fixture(scope="module")
def keyed(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path, api_keys=KEYS, resume=30.0)) as server:
        yield server


@pytest.fixture(scope="module")
def shared(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path, api_keys=KEYS, share_prefixes=True)) as server:
        yield server


def ask(server: Running, key: str, path: str = COMPLETIONS, **fields: Any) -> Any:
    reply = server.client.post(path, json=fields, headers={"authorization": f"Bearer {key}"})
    assert reply.status_code == 200, reply.text
    return reply.json()


def prefix_report(server: Running, key: str, prompt: list[int]) -> dict[str, Any]:
    report: dict[str, Any] = ask(server, key, prompt=prompt, max_tokens=1, timings=True)["timings"]["cache"]
    return report


def stolen(server: Running, key: str, known: int) -> list[int]:
    """Tokens of the secret that a key can read beyond the first `known`, one request for each."""
    read = SECRET[:known]
    while len(read) < len(SECRET):
        report = prefix_report(server, key, [*read, 5, 6])
        expected = [token for token in report["expected"] if token not in (5, 6)]
        if report["broke_at"] != len(read) or not expected:
            break
        read.append(expected[0])
    return read[known:]


@pytest.mark.models
def test_no_token_of_another_key_can_be_read_request_by_request(keyed: Running, shared: Running) -> None:
    for server in (keyed, shared):
        ask(server, "victim-key", prompt=SECRET, max_tokens=4, temperature=0)
    assert stolen(keyed, "victim-key", 4) == SECRET[4:], "the attack works where it is none"
    for server in (keyed, shared):
        for known in (1, 4, 16, 20):
            assert stolen(server, "attacker-key", known) == []


@pytest.mark.models
def test_with_shared_prefixes_a_caller_is_told_what_it_saved_and_nothing_else(shared: Running) -> None:
    prompt = [300 + token for token in SECRET]
    first = prefix_report(shared, "victim-key", prompt)
    found = prefix_report(shared, "attacker-key", [*prompt[:18], 7, 8])
    nothing = {"broke_at": None, "reason": None, "token": None, "expected": []}
    assert first == {"cached_tokens": 0} | nothing and found == {"cached_tokens": 18} | nothing
    entry = shared.log()[-1]  # the operator of the server sees why
    assert (entry["broke_at"], entry["broke_by"]) == (18, "prompt_changed")


def scrubbed(value: Any) -> Any:
    """A reply without what differs from request to request: ids, the time, measured durations."""
    if isinstance(value, dict):
        changing = {"id", "created", "created_at", "completed_at", "item_id", "response_id", "seed"}
        times = {"queued", "prefill", "decode", "total", "ttft", "prefill_per_second", "decode_per_second"}
        return {
            name: scrubbed(inner)
            for name, inner in value.items()
            if name not in changing | times and not name.endswith("_duration")
        }
    return [scrubbed(inner) for inner in value] if isinstance(value, list) else value


TEXT = "A long enough prompt of a person who wants to be left alone with it: " + "word " * 20
MESSAGES = [{"role": "user", "content": TEXT}]
OLLAMA = {"num_predict": 4, "temperature": 0}
REQUESTS: dict[str, dict[str, Any]] = {
    CHAT: {"messages": MESSAGES, "timings": True, "logprobs": True, "response_format": {"type": "json_object"}},
    COMPLETIONS: {"prompt": TEXT, "timings": True, "prompt_logprobs": 1},
    "/v1/messages": {"model": "smol", "messages": MESSAGES, "timings": True},
    "/v1/responses": {"input": TEXT, "timings": True},
    "/api/chat": {"messages": MESSAGES, "stream": False, "options": OLLAMA},
    "/api/generate": {"prompt": TEXT, "stream": False, "options": OLLAMA},
    "/v1/messages/count_tokens": {"model": "smol", "messages": MESSAGES},
    "/tokenize": {"prompt": TEXT},
    "/apply-template": {"messages": MESSAGES},
}


def test_every_route_that_generates_is_tried() -> None:
    generating = {route.path for route in ROUTES if route.operation}
    assert generating - {"/infill"} <= REQUESTS.keys()  # for which this model has no markers


@pytest.mark.models
@pytest.mark.parametrize("path", REQUESTS)
def test_a_reply_does_not_depend_on_what_others_asked(keyed: Running, path: str) -> None:
    """The same request before and after another key made it, and at last by the same key again."""
    fields = json.loads(json.dumps(REQUESTS[path]).replace(TEXT, f"{path} {TEXT}"))
    if "timings" in fields:
        fields = fields | {"max_output_tokens" if path == "/v1/responses" else "max_tokens": 4, "temperature": 0}
    before = ask(keyed, "bystander-key", path, **fields)
    ask(keyed, "victim-key", path, **fields)
    after = ask(keyed, "attacker-key", path, **fields)
    assert scrubbed(after) == scrubbed(before)
    again = ask(keyed, "attacker-key", path, **fields)
    if "timings" in fields and path != COMPLETIONS:  # whose prompt's log-probabilities are computed anew
        assert again["timings"]["cached_tokens"] > after["timings"]["cached_tokens"]


@pytest.mark.models
def test_without_keys_an_address_is_a_caller(smollm2_path: Path) -> None:
    with running(config_for(smollm2_path)) as server, httpx.Client(
        base_url=server.url, transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=60
    ) as neighbour:
        fields = {"prompt": SECRET, "max_tokens": 1, "timings": True}
        server.ok(COMPLETIONS, **fields)
        assert neighbour.post(COMPLETIONS, json=fields).json()["timings"]["cached_tokens"] == 0
        assert server.ok(COMPLETIONS, **fields)["timings"]["cached_tokens"] > 0


@pytest.mark.models
def test_streams_of_two_keys_with_one_id_do_not_meet(keyed: Running) -> None:
    """The id is the client's own (x-request-id): it neither reveals whether another caller uses it nor leads to its
    stream."""
    fields = {"messages": HELLO, "max_tokens": 3, "temperature": 0, "ignore_eos": True, "stream": True}

    def asked(key: str, **headers: str) -> httpx.Response:
        named = {"authorization": f"Bearer {key}", "x-request-id": "chosen"} | headers
        return keyed.client.post(CHAT, json=fields, headers=named)

    first, second = asked("victim-key"), asked("attacker-key")
    assert "id: chosen:0\n" in first.text and "id: chosen:0\n" in second.text
    resumed = {"last-event-id": "chosen:0"}
    assert asked("victim-key", **resumed).text.startswith("id: chosen:1\n")
    unknown = asked("bystander-key", **resumed)
    never = asked("bystander-key", **{"last-event-id": "another:0"})
    assert unknown.status_code == never.status_code == 404
    assert unknown.json()["error"]["message"].replace("chosen", "another") == never.json()["error"]["message"]


@pytest.mark.models
def test_nothing_told_to_everybody_names_a_caller_or_its_texts(keyed: Running) -> None:
    marked = "xylophone zeppelin"
    ask(keyed, "victim-key", CHAT, messages=[{"role": "user", "content": marked}], max_tokens=2)
    names = {entry["caller"] for entry in keyed.log() if "caller" in entry}
    assert names and all(name.startswith("key ") for name in names)
    for path in ("/metrics", "/v1/models", "/health", "/version", "/openapi.json"):
        page = keyed.client.get(path, headers={"authorization": "Bearer attacker-key"}).text
        assert not any(word in page for word in (*names, *KEYS, "xylophone", "zeppelin"))


def test_a_warning_of_another_thread_is_not_a_callers() -> None:
    begun, said = threading.Event(), threading.Event()

    def other() -> None:
        assert begun.wait(10)
        warnings.warn("of another's text", UserWarning, stacklevel=1)
        said.set()

    def work() -> str:
        warnings.warn("mine", UserWarning, stacklevel=1)
        begun.set()
        assert said.wait(10)
        return "done"

    thread = threading.Thread(target=other)
    mine: list[str] = []
    with pytest.warns(UserWarning, match="of another's text"):
        thread.start()
        assert heard(mine, work) == "done"
        thread.join()
    assert mine == ["mine"]


def test_prefixes_are_a_callers_own_unless_the_config_says_otherwise() -> None:
    assert ServerConfig().share_prefixes is False
    assert replace(ServerConfig(), share_prefixes=True).share_prefixes
