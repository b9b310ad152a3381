"""A server among people: who may ask, how much, and what becomes of those who leave."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from cutaway.assemble import Engine
from cutaway.config import LimitsConfig, ModelConfig
from cutaway.ops.rows import HostRows
from cutaway.server.app import create_app
from cutaway.server.models import pool
from cutaway.server.models.served_model import Served, open_engine
from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, raw_request, running, until

pytestmark = pytest.mark.models

ENDLESS: dict[str, Any] = {"prompt": "x", "max_tokens": 400, "ignore_eos": True, "temperature": 0}


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_costs_nothing_more(smol: Running, stream: bool) -> None:
    """C47: while it runs, also in a long prefill; its pages are free within about a step."""
    for prompt in ("x", list(range(100, 500))):
        connection = raw_request(smol, COMPLETIONS, ENDLESS | {"prompt": prompt, "max_tokens": 100, "stream": stream})
        until(lambda: smol.status("smol").running == 1)
        connection.close()
        steps = smol.status("smol").steps
        until(lambda: smol.status("smol").running == 0)
        assert smol.status("smol").steps - steps <= 2
        smol.idle("smol")
    assert [entry["finish"] for entry in smol.log()[-2:]] == ["cancelled", "cancelled"]
    assert smol.ok(COMPLETIONS, prompt="1 2 3", max_tokens=3, temperature=0)["choices"][0]["text"]


def test_a_queued_client_that_leaves_never_starts(smollm2_path: Path) -> None:
    """C47."""
    config = config_for(smollm2_path)
    config = replace(config, models=(replace(config.models[0], max_requests=1),))
    with running(config) as server:
        first = raw_request(server, COMPLETIONS, ENDLESS | {"stream": True})
        until(lambda: server.status("smol").running == 1)
        second = raw_request(server, COMPLETIONS, ENDLESS | {"prompt": "y"})
        until(lambda: server.status("smol").waiting == 1)
        second.close()
        until(lambda: server.status("smol").waiting == 0)
        first.close()
        server.idle("smol")
        cancelled = [entry for entry in server.log() if entry.get("finish") == "cancelled"]
        assert min(entry["tokens_out"] for entry in cancelled) == 0


def test_the_same_answer_after_an_abort(smol: Running) -> None:
    """C57: a prefix of an aborted prefill is taken up only as far as it was written; cached or not, the same."""
    prompt = [int(t) for t in np.random.default_rng(3).integers(100, 40_000, 300)]
    connection = raw_request(smol, COMPLETIONS, ENDLESS | {"prompt": prompt})
    until(lambda: smol.status("smol").running == 1)
    connection.close()
    smol.idle("smol")
    fields = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 3}
    replies = [
        smol.ok(COMPLETIONS, **fields),
        smol.ok(COMPLETIONS, **fields),
        smol.ok(COMPLETIONS, cache_salt="a", **fields),
    ]
    assert replies[0]["choices"] == replies[1]["choices"] == replies[2]["choices"]
    cached = [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in replies]
    assert cached[1] >= 288 and cached[2] == 0
    edited = smol.ok(COMPLETIONS, **fields | {"prompt": [prompt[0] + 1, *prompt[1:]]})
    assert edited["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_nan_logits_end_one_request_and_no_other(smollm2_path: Path) -> None:
    """C62."""
    with running(config_for(smollm2_path)) as server:
        core, poisoned = server.core("smol"), threading.Event()
        whole = core._step_function

        def poison(step: Any) -> Any:
            rows = whole(step)
            if poisoned.is_set():
                positions = step.positions[step.rows]
                values = rows.values.copy()
                values[positions >= 40] = np.nan
                rows = HostRows(values)
            return rows

        core._step_function = poison
        fields = {"max_tokens": 12, "temperature": 0, "ignore_eos": True}
        good = server.ok(COMPLETIONS, prompt="1 2", **fields)
        poisoned.set()
        with ThreadPoolExecutor(3) as threads:
            other = threads.submit(server.ok, COMPLETIONS, prompt="1 2", **fields)
            bad = threads.submit(server.post, COMPLETIONS, prompt="x " * 45, **fields)
            broken = threads.submit(server.events, COMPLETIONS, prompt="y " * 19, **fields | {"max_tokens": 40})
            assert other.result()["choices"] == good["choices"]
            assert bad.result().status_code == 500 and bad.result().json()["error"]["code"] == "logits_invalid"
            events = broken.result()
        assert "NaN" in json.loads(events[-1])["error"]["message"] and len(events) > 1
        assert sum("[DONE]" in e or '"error"' in e for e in events) == 1
        poisoned.clear()
        assert server.ok(COMPLETIONS, prompt="1 2", **fields)["choices"] == good["choices"]
        server.idle("smol")
        assert sum(e["level"] == "error" for e in server.log()) == 2


def test_a_slow_reader_has_a_bounded_buffer(smollm2_path: Path) -> None:
    """It reads nothing: its buffers fill, and the request ends. Others do not notice."""
    config = config_for(smollm2_path, max_events=16, send_timeout=0.5)
    with running(config) as server:
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        fields = ENDLESS | {"stream": True, "logprobs": 100, "n": 8, "seed": 1}
        connection = raw_request(server, COMPLETIONS, fields, receive_buffer=4096)
        until(lambda: server.status("smol").running > 0)
        assert server.ok(COMPLETIONS, prompt="1 2", max_tokens=2)
        until(lambda: server.status("smol").running == 0, 30)
        server.idle("smol")
        connection.close()


def test_health_is_quick_and_503_until_ready(smollm2_path: Path) -> None:
    """C51."""
    with running(config_for(smollm2_path), wait=False) as server:
        until(lambda: _answers(server))
        states = {server.client.get("/health").status_code, server.post(CHAT, messages=HELLO, max_tokens=1).status_code}
        assert states <= {503, 200}
        server.wait_ready()
        assert any(e.get("code") == "model_loading" for e in server.log()) or states == {200}
        connection = raw_request(server, COMPLETIONS, ENDLESS | {"prompt": list(range(100, 600)), "max_tokens": 1})
        until(lambda: server.status("smol").running == 1)
        times = []
        for _ in range(10):
            began = time.perf_counter()
            assert server.client.get("/health").status_code == 200
            times.append(time.perf_counter() - began)
        connection.close()
        assert sorted(times)[5] < 0.25, times


def _answers(server: Running) -> bool:
    try:
        return server.client.get("/health").status_code in (200, 503)
    except httpx.TransportError:
        return False


def test_limits(smollm2_path: Path) -> None:
    limits = LimitsConfig(queue=1, requests_per_key=2, tokens_per_request=50, seconds_per_request=30.0)
    config = replace(config_for(smollm2_path, api_keys=("secret-one", "secret-two")), limits=limits)
    config = replace(config, models=(replace(config.models[0], max_requests=1),))
    with running(config) as server:
        assert server.refused(CHAT, 401, messages=HELLO)["code"] == "invalid_api_key"
        server.client.headers["authorization"] = "Bearer secret-three"
        assert server.refused(CHAT, 401, messages=HELLO)["type"] == "authentication_error"
        assert server.client.get("/metrics").status_code == 401 and server.client.get("/health").status_code == 200
        server.client.headers["authorization"] = "Bearer secret-one"
        assert "allows 50" in server.refused(CHAT, messages=HELLO, max_tokens=51)["message"]
        assert server.refused(CHAT, messages=HELLO, n=3)["code"] == "limit_exceeded"
        started = [
            raw_keyed(server, key, ENDLESS | {"max_tokens": 50, "stream": True}) for key in ("secret-one", "secret-two")
        ]
        until(lambda: server.service.admission.in_flight == 2)
        reply = server.post(CHAT, messages=HELLO, max_tokens=1)
        assert reply.status_code == 503 and int(reply.headers["retry-after"]) >= 1
        assert reply.json()["error"]["code"] == "queue_full" and "1 at once" in reply.json()["error"]["message"]
        for connection in started:
            connection.close()
        server.idle("smol")
        server.client.headers["authorization"] = ""
        server.client.headers["x-api-key"] = "secret-two"
        assert server.ok(CHAT, messages=HELLO, max_tokens=1)
        text = server.client.get("/metrics").text
        assert 'cutaway:refused_total{reason="queue"} 1.0' in text
        assert "secret" not in server.stream.getvalue()


def test_a_page_can_read_why_it_was_refused_and_only_a_listed_one(smollm2_path: Path) -> None:
    app = create_app(config_for(smollm2_path, api_keys=("secret",), cors_origins=("http://page",)))

    async def asked() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            wanted = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
            return [
                await client.options(CHAT, headers={"origin": "http://page"} | wanted),
                await client.options(CHAT, headers={"origin": "http://other"} | wanted),
                await client.post(CHAT, headers={"origin": "http://page"}),
                await client.post(CHAT, headers={"origin": "http://other"}),
            ]

    preflight, foreign, refused, unread = asyncio.run(asked())
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, "http://page")
    assert foreign.status_code == 400
    assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == "http://page"
    assert refused.headers["www-authenticate"] == "Bearer" and refused.headers["x-request-id"]
    assert unread.status_code == 403 and "access-control-allow-origin" not in unread.headers


def raw_keyed(server: Running, key: str, fields: dict[str, Any]) -> socket.socket:
    body = json.dumps(fields).encode()
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(head.encode() + body)
    return connection


def test_requests_per_key_and_minute(smollm2_path: Path) -> None:
    config = replace(config_for(smollm2_path), limits=LimitsConfig(requests_per_key=1, requests_per_minute=3))
    with running(config) as server:
        connection = raw_request(server, COMPLETIONS, ENDLESS | {"stream": True})
        until(lambda: server.service.admission.in_flight == 1)
        reply = server.post(CHAT, messages=HELLO, max_tokens=1)
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "too_many_requests")
        connection.close()
        server.idle("smol")
        for _ in range(2):
            server.ok(CHAT, messages=HELLO, max_tokens=1)
        reply = server.post(CHAT, messages=HELLO, max_tokens=1)
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(reply.headers["retry-after"]) <= 60 and "3 are allowed" in reply.json()["error"]["message"]


def test_metrics_log_and_models(smol: Running) -> None:
    smol.ok(CHAT, messages=HELLO, max_tokens=3, temperature=0)
    text = smol.client.get("/metrics").text
    for name in (
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total", "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket", "vllm:e2e_request_latency_seconds_sum",
        "vllm:request_queue_time_seconds_count", "vllm:request_prefill_time_seconds_count",
        "vllm:request_decode_time_seconds_count", "cutaway:kv_pages", "cutaway:steps_total", "cutaway_model_info",
    ):  # fmt: skip
        assert f"\n{name}" in text, name
    assert 'finished_reason="length"' in text
    entry = next(e for e in reversed(smol.log()) if e["event"] == "request")
    assert {
        "id",
        "model",
        "sha256",
        "tokens_in",
        "tokens_out",
        "cached",
        "queue_ms",
        "ttft_ms",
        "tpot_ms",
        "finish",
        "hit_rate",
    } <= set(entry)
    assert "hello" not in json.dumps(entry)  # prompts are not logged
    (model,) = smol.client.get("/v1/models").json()["data"]
    assert model["state"] == "ready" and model["context_length"] == 512 and len(model["sha256"]) == 64
    assert smol.client.get("/v1/models/smol").json()["id"] == "smol"
    assert smol.client.get("/v1/models/other").status_code == 404
    assert smol.client.get("/version").json()["instruction_set"]
    assert CHAT in smol.client.get("/openapi.json").json()["paths"] and smol.client.get("/docs").status_code == 200
    reply = smol.client.post(CHAT, json={"messages": HELLO, "max_tokens": 1}, headers={"x-request-id": "mine-1"})
    assert reply.headers["x-request-id"] == "mine-1" and reply.json()["id"] == "chatcmpl-mine-1"


def test_a_stream_can_be_taken_up_again(smollm2_path: Path) -> None:
    with running(config_for(smollm2_path, resume=20.0)) as server:
        fields = {"messages": HELLO, "max_tokens": 24, "temperature": 0, "ignore_eos": True, "stream": True}
        whole, last = [], ""
        with server.client.stream("POST", CHAT, json=fields) as reply:
            for line in reply.iter_lines():
                if line.startswith("id: "):
                    last = line.removeprefix("id: ")
                if line.startswith("data: "):
                    whole.append(line)
                if len(whole) == 6:
                    break
        rest = []
        with server.client.stream("POST", CHAT, json=fields, headers={"last-event-id": last}) as reply:
            assert reply.status_code == 200
            rest = [line for line in reply.iter_lines() if line.startswith("data: ")]
        assert rest[-1] == "data: [DONE]"
        texts = [json.loads(line[6:])["choices"][0]["delta"].get("content", "") for line in whole + rest[:-1]]
        again = server.ok(CHAT, **fields | {"stream": False})
        assert "".join(texts) == again["choices"][0]["message"]["content"]
        unknown = server.client.post(CHAT, json=fields, headers={"last-event-id": "x:3"})
        assert unknown.status_code == 404 and unknown.json()["error"]["code"] == "stream_not_found"


def test_several_models_within_one_budget(smollm2_path: Path, gemma_path: Path) -> None:
    """The second does not fit beside the first: the first is unloaded when it is idle, and loaded again on use."""
    config = config_for(smollm2_path, memory="700 MB")
    small = config.models[0]
    config = replace(
        config,
        models=(small, ModelConfig(str(gemma_path), name="gemma", context=512, contexts=1)),
        aliases={"half": {"smol": 0.5, "gemma": 0.5}, "other": "smol"},
    )
    with running(config) as server:
        pool = server.service.roster
        until(lambda: bool(pool.models["gemma"].sha256))
        need = [m.plan.total for m in pool.models.values() if m.plan]
        pool.budget = max(need) + min(need) // 2
        assert server.ok(COMPLETIONS, model="gemma", prompt="x", max_tokens=1)["model"] == "gemma"
        assert (pool.models["smol"].state, pool.models["gemma"].state) == ("unloaded", "ready")
        connection = raw_request(
            server, COMPLETIONS, {"model": "gemma", "prompt": "x", "max_tokens": 400, "ignore_eos": True}
        )
        until(lambda: server.status("gemma").running == 1)
        error = server.refused(COMPLETIONS, 503, model="smol", prompt="x")
        assert error["code"] == "memory_short" and "gemma (1 requests)" in error["message"]
        connection.close()
        server.idle("gemma")
        assert server.ok(COMPLETIONS, model="other", prompt="x", max_tokens=1)["model"] == "smol"
        assert {m["id"] for m in server.client.get("/v1/models").json()["data"]} == {"smol", "gemma", "half", "other"}
        names = pool.names
        drawn = [names.find("half", str(i))[0] for i in range(400)]
        assert 150 < drawn.count("smol") < 250 and names.find("half", "7") == names.find("half", "7")
        pool.models["smol"].state = "loading"  # as when it comes back
        assert server.client.get("/health").status_code == 200
        pool.models["smol"].state = "ready"
        pool.budget = 1000
        error = server.refused(COMPLETIONS, 503, model="gemma", prompt="x")
        assert "budget for models is 1000" in error["message"]


def test_a_load_goes_on_when_its_client_leaves(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger then holds what it took, and the next client finds it; one that only waited is not begun."""
    config = config_for(smollm2_path)
    later = [replace(config.models[0], name=name) for name in ("second", "third")]
    with running(replace(config, models=(config.models[0], *later))) as server:
        go, opened = threading.Event(), []

        def slowly(served: Served) -> Engine:
            opened.append(served.name)
            assert go.wait(20)
            return open_engine(served)

        monkeypatch.setattr(pool, "open_engine", slowly)
        models = server.service.roster.models
        for name in ("second", "third"):
            with raw_request(server, COMPLETIONS, {"model": name, "prompt": "x"}):
                until(lambda name=name: models[name].users == 1)  # type: ignore[misc]
                until(lambda: models["second"].state == "loading")
            until(lambda name=name: models[name].users == 0)  # type: ignore[misc]
        go.set()
        until(lambda: models["second"].state == "ready")
        assert opened == ["second"] and models["third"].state == "unloaded"
        assert server.ok(COMPLETIONS, model="second", prompt="x", max_tokens=1)
        assert opened == ["second"]
