"""`cutaway ps` beside a real server: its memory, pages and steps, for people and as JSON."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutaway.cli.app import main
from cutaway.ops.held_memory import held_now
from cutaway.xray.server_state import Announcement, ServerState, ended_now
from server.serving import CHAT, Running, config_for, running, until


def settled() -> bool:
    """Whether no engine of another test is being let go: the accounts are those of the process."""
    gc.collect()
    before = held_now()
    time.sleep(0.2)
    return held_now() == before


@pytest.fixture(scope="module")
def server(smollm2_path: Path) -> Iterator[Running]:
    until(settled)
    with running(config_for(smollm2_path)) as made:
        state = ServerState(
            os.getpid(), "127.0.0.1", made.port, time.time(), "0", log="/var/log/somewhere", models=("smol",)
        )
        announcement = Announcement(state, made.service.admin.value)
        yield made
        announcement.close(ended_now("stopped"))


def ps(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["ps", *options])
    assert left.value.code == 0
    return capsys.readouterr().out


def ps_json(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    (found,) = json.loads(ps(capsys, "--json", *options))["servers"]
    return found


def test_memory_is_predicted_to_the_byte_and_adds_up(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    server.ok(CHAT, messages=[{"role": "user", "content": "你好，讲个故事。"}], max_tokens=20)
    memory = ps_json(capsys)["memory"]
    rows = {row["owner"]: row for row in memory["owners"]}
    for owner in ("weights", "pages", "scratch"):
        assert rows[owner]["model"] == "smol" and rows[owner]["measured"] > 1e6
        assert rows[owner]["difference"] == 0 == rows[owner]["measured"] - rows[owner]["predicted"]
    states = [rows[f"pages {state}"]["measured"] for state in ("held", "cached", "free")]
    assert states[1] > 0 and 0 <= rows["pages"]["measured"] - sum(states) < 4096  # what a pool ends with
    assert rows["tokenizer"]["measured"] > 1e6 and rows["python"]["measured"] > 1e7
    assert memory["accounted"] == sum(r["measured"] or 0 for r in memory["owners"] if r["within"] is None)
    assert memory["unaccounted"] == memory["anonymous"] - memory["accounted"]
    assert memory["budget"]["taken"] > 0 and memory["models"][0]["state"] == "ready"
    told = ps(capsys)
    assert "unaccounted" in told and server.url in told and "log /var/log/somewhere" in told
    assert max(map(len, told.splitlines())) <= 100


def test_refusals_are_kept_with_their_figures(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    server.refused(CHAT, 400, messages=[{"role": "user", "content": "word " * 600}])
    server.refused(CHAT, 400, messages="no list")
    (refusal,) = ps_json(capsys)["memory"]["refusals"]
    assert refusal["code"] == "context_length_exceeded" and refusal["figures"]["context_tokens"] == 512
    assert refusal["figures"]["prompt_tokens"] > 600
    assert "context_length_exceeded: prompt_tokens 6" in ps(capsys)


def test_pages_are_characters_and_steps_are_lines(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    server.ok(CHAT, messages=[{"role": "user", "content": "Name three birds."}], max_tokens=30)
    told = ps(capsys, "--pages")
    assert "96 pages of 16 tokens" in told and "!" in told and max(map(len, told.splitlines())) <= 100
    (model,) = ps_json(capsys, "--pages")["pages"]["models"]
    assert len(model["groups"][0]["map"]) == 96
    ps(capsys, "--steps")
    server.ok(CHAT, messages=[{"role": "user", "content": "Name three fish."}], max_tokens=30)
    (model,) = ps_json(capsys, "--steps", "--last", "5")["steps"]["models"]
    assert len(model["steps"]) == 5 and model["steps"][-1]["step"] == model["steps_so_far"]
    assert "predicted" in ps(capsys, "--steps", "--last", "2")


def test_a_server_that_is_gone_or_does_not_let_one_in(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    gone = ServerState(2**22 - 1, "127.0.0.1", 1, time.time() - 60, "0")
    Announcement(gone, "token").close(ended_now("failed", "out of memory"))
    assert "127.0.0.1:1 " not in ps(capsys)
    assert "failed" in ps(capsys, "--all") and "out of memory" in ps(capsys, "--all")
    found = ps_json(capsys, "--url", server.url.replace("127.0.0.1", "[::ffff:127.0.0.1]"))
    assert found["error"]["code"] in ("invalid_api_key", "server_not_found", "host_not_allowed")


@pytest.mark.parametrize("options", [["--watch", "0"], ["--last", "0"], ["--last", "257"]])
def test_wrong_options_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["ps", *options])
    assert left.value.code == 2 and "parameter_invalid" in capsys.readouterr().err
