"""A failure of the engine: its caller gets a short message, the log the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, running

pytestmark = pytest.mark.models


def a_kernel_that_fails(step: Any) -> Any:
    raise ZeroDivisionError("by the test")


def traces(server: Running) -> list[str]:
    return [entry["exception"] for entry in server.log() if entry["event"] == "request" and entry["level"] == "error"]


def test_a_failed_step_is_logged_with_its_stack_trace_whole_and_streamed(smollm2_path: Path) -> None:
    with running(config_for(smollm2_path)) as server:
        core = server.core("smol")
        whole, core._step_function = core._step_function, a_kernel_that_fails
        fields = {"max_tokens": 4, "messages": HELLO}
        assert server.post(CHAT, **fields).status_code == 500
        assert server.post(COMPLETIONS, prompt=["one", "two"], max_tokens=4).status_code == 500
        assert "error" in json.loads(server.events(CHAT, **fields)[-1])
        for path in ("/v1/messages", "/v1/responses"):
            limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
            more = {"input": "x"} if path == "/v1/responses" else {"messages": HELLO, "model": "smol"}
            assert "error" in server.events(path, **more, **{limit: 16})[-1]
        found = traces(server)
        assert len(found) == 5
        for trace in found:
            assert "a_kernel_that_fails" in trace and "ZeroDivisionError: by the test" in trace
            assert trace.count("a_kernel_that_fails") == 1 and "loop.py" in trace
        core._step_function = whole
        assert server.ok(CHAT, **fields)
        assert len(traces(server)) == 5, "an answer that came is no error"
        server.refused(CHAT, messages=HELLO, temperature=-1)
        assert len(traces(server)) == 5, "what a caller did wrong has no trace"


def test_an_engine_that_died_is_logged_with_the_reason(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_plan() -> Any:
        raise KeyError("a bug of the scheduler's")

    with running(config_for(smollm2_path)) as server:
        monkeypatch.setattr(server.core("smol").scheduler, "plan", broken_plan)
        assert "error" in json.loads(server.events(CHAT, messages=HELLO, max_tokens=4)[-1])
        assert server.post(CHAT, messages=HELLO, max_tokens=4).status_code == 500
        health = server.client.get("/health")  # so that a supervisor can restart the server
        assert health.status_code == 503
        assert health.json() == {"status": "failed", "models": {"smol": "failed"}}
        first, second = traces(server)
        for trace in (first, second):
            assert "broken_plan" in trace and "a bug of the scheduler's" in trace
