"""docs/serving.md says what is so: its names, its defaults and its figures are those of the program."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutaway.config import LimitsConfig, LoggingConfig, ServerConfig
from cutaway.config.sections import SECTIONS
from cutaway.server import launch
from cutaway.server.observe import log_writer, logs
from cutaway.server.transport import body, connection
from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, running

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [(DOCS / name).read_text("utf-8") for name in ("serving.md", "serving.zh-CN.md")]


@pytest.mark.models
@pytest.mark.parametrize("page", PAGES)
def test_the_metrics_that_are_named_exist_and_those_that_exist_are_named(smol: Running, page: str) -> None:
    text = smol.client.get("/metrics").text
    found = {name for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", text, re.M) if not name.endswith("_created")}
    named, last = set(), ""
    for word in re.findall(r"`((?:vllm:|cutaway[:_]|\.\.\.)[a-z0-9_]+)(?:\{[a-z0-9,_]+\})?`", page):
        if word.startswith("..."):  # the same, but for its end
            ends = {name for name in found if name.endswith(word[3:]) and name[:12] == last[:12]}
            assert ends, f"{word} after {last}"
            named |= ends
        else:
            named.add(last := word)
    named = {name if name in found else name.removesuffix("_total") for name in named}
    assert named == found


@pytest.mark.parametrize("page", PAGES)
def test_the_limits_of_the_table_and_their_defaults(page: str) -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \| (\d+)?", page.partition("`[limits]`")[2], re.M)[:4]
    names = [name for cell, _, _ in rows for name in re.findall(r"`(\w+)`", cell)]
    assert names == [field.name for field in dataclasses.fields(LimitsConfig)]
    assert str(LimitsConfig().queue) in rows[0][1]
    assert all(getattr(LimitsConfig(), name) is None for name in names[1:])


@pytest.mark.parametrize("page", PAGES)
def test_the_keys_that_are_named_are_keys(page: str) -> None:
    known = {field.name for section in SECTIONS.values() for field in dataclasses.fields(section)}
    for name in re.findall(r"`([a-z]+(?:_[a-z]+)*) = ", page) + re.findall(r"^([a-z_]+) = ", page, re.M):
        assert name in known, name


def test_the_figures() -> None:
    server = ServerConfig()
    assert (server.max_body, server.max_depth, server.grace) == (8 * 2**20, 100, 30.0)
    assert (connection.MOST_HEAD, connection.MOST_LINE) == (16 * 1024, 8 * 1024)
    assert (connection.HEAD_SECONDS, body.BODY_SECONDS, launch.DEAD_PEER_MS) == (30.0, 60.0, 60_000)
    assert (log_writer.MOST_LINES, log_writer.MOST_BYTES, logs.FLUSH_SECONDS) == (10_000, 8 * 2**20, 2.0)
    assert (connection.LINGER_BYTES, connection.LINGER_SECONDS * 10) == (2**20, 10.0)
    for figure in ("8 MiB", "100 levels", "16 KiB", "8 KiB", "within 30 s, its body within 60", "10,000 lines", "2 s"):
        assert figure in PAGES[0], figure


@pytest.mark.models
def test_seconds_per_request_end_an_answer_with_length(smollm2_path: Path) -> None:
    config = replace(config_for(smollm2_path), limits=LimitsConfig(seconds_per_request=0.2))
    with running(config) as server:
        fields: dict[str, Any] = {"prompt": "x", "max_tokens": 400, "ignore_eos": True}
        (choice,) = server.ok(COMPLETIONS, **fields)["choices"]
        assert choice["finish_reason"] == "length"
        assert server.log()[-1]["finish"] == "time" and server.log()[-1]["tokens_out"] < 400


@pytest.mark.models
@pytest.mark.parametrize("prompts", [False, True])
def test_prompts_and_answers_are_logged_only_where_it_is_asked_for(smollm2_path: Path, prompts: bool) -> None:
    config = replace(config_for(smollm2_path), logging=LoggingConfig(format="json", prompts=prompts))
    with running(config) as server:
        reply = server.ok(CHAT, messages=[{"role": "user", "content": "Marmalade?"}], max_tokens=4, ignore_eos=True)
        server.refused(CHAT, messages=HELLO, max_tokens=-1)
        entry = next(e for e in reversed(server.log()) if e["event"] == "request")
        assert ("Marmalade" in json.dumps(server.log())) == prompts
        assert entry.get("answers") == ([reply["choices"][0]["message"]["content"]] if prompts else None)
