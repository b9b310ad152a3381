"""`cutaway serve` as a process: its start, its end, its errors; and its description held against what it does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from cutaway.config import LimitsConfig
from cutaway.server.routes import ROUTES
from server.serving import CHAT, COMPLETIONS, HELLO, config_for, running

pytestmark = pytest.mark.models


class Process:
    """The program, its log read as it comes."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "cutaway", "serve", "--port", "0", "--log-format", "json", *arguments]
        self.running = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, encoding="utf-8"
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.running.stderr is not None
        for line in self.running.stderr:
            self.lines.append(line)
        self.running.stderr.close()

    def url(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if found := re.search(r'"url": "([^"]+)"', "".join(self.lines)):
                return found[1]
            time.sleep(0.05)
        raise AssertionError(self.lines)

    def end(self) -> int:
        code = self.running.wait(60)
        self._reader.join()
        return code


@contextmanager
def process(*arguments: str) -> Iterator[Process]:
    made = Process(*arguments)
    try:
        yield made
    finally:
        if made.running.poll() is None:
            made.running.kill()
        made.end()


def wait_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while client.get("/health").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_sigterm_lets_running_requests_end(smollm2_path: Path, tmp_path: Path) -> None:
    config = tmp_path / "cutaway.toml"
    config.write_text("[server]\ngrace = 300.0")  # a busy machine needs more than the 30 s for 400 tokens
    with (
        process(f"small={smollm2_path}", "--context", "512", "--config", str(config)) as server,
        httpx.Client(base_url=server.url(), timeout=60) as client,
    ):
        wait_ready(client)
        assert client.get("/v1/models").json()["data"][0]["id"] == "small"
        texts: list[str] = []
        # Long enough that the server looks at the signal meanwhile: it does ten times a second.
        fields = {"prompt": "x", "max_tokens": 400, "ignore_eos": True, "stream": True}
        with client.stream("POST", COMPLETIONS, json=fields) as reply:
            for line in reply.iter_lines():
                texts.append(line)
                if len(texts) == 1:
                    server.running.send_signal(signal.SIGTERM)
        assert texts[-2] == "data: [DONE]"
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{client.base_url}/health")
        assert server.end() == 0
        assert sum('"event": "request"' in line for line in server.lines) == 1


def test_what_outlasts_the_grace_ends_with_an_error_event(smollm2_path: Path, tmp_path: Path) -> None:
    config = tmp_path / "cutaway.toml"
    config.write_text("[server]\ngrace = 1.0\n[logging]\nprompts = true")
    arguments = (f"small={smollm2_path}", "--config", str(config))
    with process(*arguments) as server, httpx.Client(base_url=server.url(), timeout=60) as client:
        wait_ready(client)
        fields = {"prompt": "x", "max_tokens": 3000, "ignore_eos": True, "stream": True}
        with client.stream("POST", COMPLETIONS, json=fields) as reply:
            lines = reply.iter_lines()
            next(lines)
            server.running.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line.startswith("data: ")]
        assert json.loads(rest[-1][6:])["error"]["code"] == "shutting_down"
        assert server.end() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no-such-model",), "no model is named"),
        (("--port", "99999"), "server.port must be less than or equal to 65535"),
        (("--log-level", "loud"), "logging.level must be 'debug'"),
        (("--memory", "lots"), "such as 6 GB"),
        (("--config", "none.toml"), "searched"),
    ],
)
def test_what_cannot_be_served_is_said_and_exits_with_2(
    smollm2_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    models = () if arguments[0] == "no-such-model" else (str(smollm2_path),)
    with process(*models, *arguments) as server:
        assert server.end() == 2
        assert words in "".join(server.lines), server.lines


def test_a_model_that_cannot_be_loaded_ends_the_server(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 100)
    with process(str(broken)) as server:
        assert server.end() == 2
        assert "cutaway: error[" in server.lines[-1]


def test_starting_needs_no_torch(smollm2_path: Path) -> None:
    script = "import sys, cutaway.server; print({'torch', 'transformers', 'openai'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "set()"


def test_no_described_request_is_a_500(smollm2_path: Path) -> None:
    """Schemathesis: requests made from our own description, right and wrong ones; none is a fault of ours."""
    config = replace(config_for(smollm2_path), limits=LimitsConfig(tokens_per_request=3))  # none is long
    with running(config) as server:
        description: dict[str, Any] = server.client.get("/openapi.json").json()
        for path in (route.path for route in ROUTES if route.operation):
            properties = description["components"]["schemas"][path_model(description, path)]["properties"]
            properties.pop("stream", None)
            for name in {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"} & properties.keys():
                properties[name] = {"type": "integer", "maximum": 3}

        @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def ask(case: Any) -> None:
            reply = case.call(base_url=server.url, timeout=60)
            assert reply.status_code < 500, (case.path, case.body, reply.text)

        for path, operations in schemathesis.openapi.from_dict(description).items():
            for operation in operations.values():
                if path != "/metrics":
                    given(case=operation.as_strategy())(ask)()
        assert server.ok(CHAT, messages=HELLO, max_tokens=1)


def path_model(description: dict[str, Any], path: str) -> str:
    schema = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return str(schema["$ref"]).rpartition("/")[2]
