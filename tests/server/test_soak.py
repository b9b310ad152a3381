"""Mixed load for a while: cancels, tools, schemas, long prompts, wrong requests. Then everything is as before.

Half a minute by default; CUTAWAY_SOAK_SECONDS says another time (the long form: 1800).
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, raw_request, running

pytestmark = pytest.mark.models
SECONDS = float(os.environ.get("CUTAWAY_SOAK_SECONDS", "25"))
PERSON = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["age"],
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": PERSON}}


def one(server: Running, client: httpx.Client, rng: random.Random) -> int:
    """One request of some kind. Returns its status, 499 for one that left."""
    kind, tokens = rng.randrange(8), rng.randrange(1, 12)
    fields: dict[str, Any] = {"messages": HELLO, "max_tokens": tokens, "seed": rng.randrange(100)}
    if kind == 0:
        connection = raw_request(server, COMPLETIONS, {"prompt": "x", "max_tokens": 300, "stream": rng.random() < 0.5})
        time.sleep(rng.random() * 0.3)
        connection.close()
        return 499
    if kind == 1:
        fields |= {"tools": [TOOL], "tool_choice": rng.choice(["auto", "required"]), "max_tokens": 30}
    elif kind == 2:
        fields |= {
            "response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}},
            "max_tokens": 30,
        }
    elif kind == 3:
        fields["messages"] = [{"role": "user", "content": "word " * rng.randrange(100, 350)}]
    elif kind == 4:
        fields |= rng.choice(
            [
                {"temperature": -1},
                {"messages": []},
                {"model": "x"},
                {"messages": [{"role": "user", "content": "w " * 2000}]},
            ]
        )
    elif kind == 5:
        with client.stream("POST", CHAT, json=fields | {"stream": True, "n": 2}) as reply:
            for number, _ in enumerate(reply.iter_lines()):
                if number > 20 and rng.random() < 0.2:
                    return 499
            return reply.status_code
    elif kind == 6:
        fields |= {"logprobs": True, "top_logprobs": 3, "n": 2}
    return client.post(CHAT, json=fields).status_code


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


POOLS = ("cutaway-prepare", "cutaway-mask", "cutaway-load")  # of bounded size, and they grow on demand


def threads() -> list[str]:
    """Names of the running threads, but for the workers of pools."""
    return sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith(POOLS))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def load(server: Running, seconds: float, seed: int) -> list[int]:
    statuses: list[int] = []

    def work(number: int) -> None:
        rng, until = random.Random(seed * 100 + number), time.monotonic() + seconds
        with httpx.Client(base_url=server.url, timeout=120) as client:
            while time.monotonic() < until:
                statuses.append(one(server, client, rng))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.idle("smol", 60)
    gc.collect()
    return statuses


def test_after_mixed_load_everything_is_as_before(smollm2_path: Path) -> None:
    with running(config_for(smollm2_path)) as server:
        load(server, SECONDS * 0.4, 1)  # buffers and caches find their size
        before = (resident(), threads(), descriptors())
        statuses = load(server, SECONDS * 0.6, 2)
        after = (resident(), threads(), descriptors())
        assert set(statuses) <= {200, 400, 404, 499} and statuses.count(200) > 5, statuses
        assert after[0] - before[0] < 60e6, (before, after)
        assert after[1] == before[1] and after[2] <= before[2] + 4, (before, after)
        assert not any(entry["level"] == "error" for entry in server.log())
        ended = [entry["id"] for entry in server.log() if entry["event"] == "request"]
        assert len(ended) == len(set(ended)), "a request ended twice"
        assert server.service.admission.in_flight == 0
        assert all(served.users == 0 for served in server.service.roster.models.values())
        server.core("smol").pages.check()
