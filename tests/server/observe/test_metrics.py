"""Names that are borrowed mean what their owner means by them, while requests run and when they are left."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from server.serving import COMPLETIONS, Running, config_for, raw_request, running, until

pytestmark = pytest.mark.models

STREAM: dict[str, Any] = {
    "prompt": list(range(200, 230)), "max_tokens": 400, "ignore_eos": True, "temperature": 0, "stream": True,
}  # fmt: skip


def counted(server: Running) -> dict[str, float]:
    """Every sample of the page, summed over labels; by finished_reason where there is one."""
    found: dict[str, float] = {}
    for name, labels, value in re.findall(r"^([\w:]+)(\{.*\})? (\S+)$", server.client.get("/metrics").text, re.M):
        reason = re.search(r'finished_reason="(\w+)"', labels)
        key = f"{name} {reason[1]}" if reason else name
        found[key] = found.get(key, 0.0) + float(value)
    return found


def test_what_runs_and_what_is_left_is_counted_as_the_owner_of_the_names_does(smollm2_path: Path) -> None:
    """vLLM counts a prompt and the time to the first token with the first token, an answer's tokens in each step."""
    with running(config_for(smollm2_path)) as server:
        before = counted(server)
        streams = [raw_request(server, COMPLETIONS, STREAM | {"cache_salt": str(i)}) for i in range(5)]
        for stream in streams:
            while b"data: " not in stream.recv(65536):
                pass
        until(lambda: counted(server)["vllm:generation_tokens_total"] >= 10)
        while_running = counted(server)
        assert while_running["vllm:num_requests_running"] == 5
        assert while_running["vllm:prompt_tokens_total"] - before["vllm:prompt_tokens_total"] == 150
        assert while_running["vllm:prefix_cache_queries_total"] == 150
        assert while_running["vllm:prefix_cache_hits_total"] == 0
        assert while_running["vllm:time_to_first_token_seconds_count"] == 5
        assert while_running["vllm:inter_token_latency_seconds_count"] >= 5
        assert "vllm:request_success_total abort" not in while_running
        for stream in streams:
            stream.close()
        server.idle("smol")
        after = counted(server)
        assert after["vllm:request_success_total abort"] == 5 and after["cutaway:cancelled_total"] == 5
        assert after["vllm:prompt_tokens_total"] == 150 and after["vllm:e2e_request_latency_seconds_count"] == 5
        assert after["vllm:request_prompt_tokens_sum"] == 150
        told, made = after["vllm:request_generation_tokens_sum"], after["vllm:generation_tokens_total"]
        assert 0 < told <= made < 5 * 400
        server.ok(COMPLETIONS, prompt=STREAM["prompt"], max_tokens=7, ignore_eos=True, n=2, cache_salt="0")
        last = counted(server)
        rise = {name: last[name] - after.get(name, 0.0) for name in last}
        assert (rise["vllm:generation_tokens_total"], rise["vllm:prompt_tokens_total"]) == (14, 60), "n requests"
        assert rise["vllm:request_success_total length"] == 2 and rise["vllm:time_to_first_token_seconds_count"] == 2
        assert rise["vllm:prefix_cache_queries_total"] == 60 and rise["vllm:prefix_cache_hits_total"] >= 16


def test_a_failed_answer_is_counted_as_one(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(step: Any) -> Any:
        raise ZeroDivisionError

    with running(config_for(smollm2_path)) as server:
        monkeypatch.setattr(server.core("smol"), "_step_function", fails)
        assert server.post(COMPLETIONS, prompt="x", n=2).status_code == 500
        found = counted(server)
        assert found["vllm:request_success_total error"] == 2 and found["vllm:prompt_tokens_total"] == 0
