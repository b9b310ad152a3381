"""Requests to a server of a tiny model and what it answers, equal but for ids, times and what a machine is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from cutaway.config import Config, LoggingConfig, ModelConfig, ServerConfig
from fences.requests import REQUESTS, Asked
from fences.served_model import write_model
from fences.surfaces import metric_names
from server.serving import Running, running

TIMES = {"created", "created_at", "completed_at", "loaded_at"}
IDS = re.compile(r"(?<![0-9a-zA-Z])(?:[0-9a-f]{32}|(?<=call_)[0-9a-zA-Z]{24})(?![0-9a-zA-Z])")
MACHINE = {"memory", "memory_bytes", "sha256", "system_fingerprint", "fingerprint", "instruction_set"}


def record_exchanges(folder: Path) -> tuple[str, str]:
    """The exchanges as text, and the names on the page of metrics afterwards."""
    path = folder / "tiny.gguf"
    write_model(path)
    model = ModelConfig(
        str(path), name="tiny", context=512, contexts=3, threads=1, kv_k="f32", kv_v="f32", max_requests=4
    )
    config = Config(
        models=(model,), aliases={"other": "tiny"}, server=ServerConfig(port=0, api_keys=("key-1", "key-2")),
        logging=LoggingConfig(format="json"),
    )  # fmt: skip
    with running(config) as server:
        exchanges = "\n".join(_exchange(server, number, asked) for number, asked in enumerate(REQUESTS))
        exchanges = exchanges.replace(str(folder), "<folder>")
        page = server.client.get("/metrics", headers={"authorization": "Bearer key-1"}).text
    return exchanges, metric_names(page)


def _exchange(server: Running, number: int, asked: Asked) -> str:
    body = asked.body if isinstance(asked.body, bytes) else json.dumps(asked.body).encode()
    headers = {"x-request-id": f"fence-{number}", "authorization": "Bearer key-1", "content-type": "application/json"}
    headers = {key: value for key, value in (headers | asked.headers).items() if value}
    reply = server.client.request(
        asked.method, asked.path, content=None if asked.body is None else body, headers=headers
    )
    lines = [f"### {asked.name}", f"> {asked.method} {asked.path}"]
    lines += [f"> {key}: {value}" for key, value in asked.headers.items()]
    if asked.body is not None:
        lines.append("> " + (asked.body if isinstance(asked.body, str) else body.decode("utf-8", "backslashreplace")))
    told = [
        f"{key}: {reply.headers[key]}" for key in ("retry-after", "www-authenticate", "allow") if key in reply.headers
    ]
    lines.append(f"< {reply.status_code} {reply.headers.get('content-type', '')} {' '.join(told)}".rstrip())
    return "\n".join([*lines, *("< " + line for line in _body(reply)), ""])


def _body(reply: httpx.Response) -> Iterator[str]:
    kind = reply.headers.get("content-type", "")
    if kind.startswith("application/json"):
        yield _neutral_json(reply.text)
    elif kind.startswith("text/event-stream"):
        for line in reply.text.splitlines():
            if line.startswith("data: {"):
                yield "data: " + _neutral_json(line.removeprefix("data: "))
            elif line and not line.startswith(":"):  # a comment stands in a silence, and silences are of the machine
                yield line
    else:
        yield from reply.text.splitlines()


def _neutral_json(text: str) -> str:
    return json.dumps(_neutral(json.loads(text), ""), ensure_ascii=False)


def _neutral(value: Any, key: str) -> Any:
    if key in TIMES or key in MACHINE:
        return f"<{key}>"
    if isinstance(value, dict):
        return {k: _neutral_timing(k, v) if key == "timings" else _neutral(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_neutral(one, key) for one in value]
    if isinstance(value, str):
        return IDS.sub("<id>", value)
    return value


def _neutral_timing(key: str, value: Any) -> Any:
    """Counts stay, seconds and rates go."""
    return "<time>" if isinstance(value, float) else _neutral(value, key)
