"""Records run again: made among many, replayed alone, in another process; and records that somebody has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutaway.assemble import Engine
from cutaway.config import Config, LoggingConfig, ModelConfig, RecordConfig
from cutaway.errors import RecordError
from cutaway.xray.record import Ending, RequestRecord
from cutaway.xray.record_json import dump_record, record_from
from cutaway.xray.recorded import known_answer
from cutaway.xray.replay import engine_for, replay, replay_json
from server.serving import COMPLETIONS, Running, running, until

pytestmark = pytest.mark.models
CLIENTS = 16
STORY = "Once upon a time there was a small engine that answered many people at once, and none of them waited long."


def crowded(path: Path) -> Config:
    """So few pages that requests are preempted."""
    return Config(
        models=(ModelConfig(str(path), name="smol", context=256, contexts=3, max_requests=16),),
        logging=LoggingConfig(format="json"), record=RecordConfig(hashes=True),
    )  # fmt: skip


def ask(server: Running, number: int) -> None:
    fields: dict[str, Any] = {
        "prompt": f"{STORY} Number {number % 4} said:", "max_tokens": 90, "temperature": 1.1, "seed": 1000 + number,
        "ignore_eos": True, "top_p": 0.95, "repetition_penalty": 1.1 if number % 3 else 1.0,
        "n": 2 if number == 5 else 1,
        "speculate": "ngram" if number % 5 == 0 else "off",
    }  # fmt: skip
    server.client.post(COMPLETIONS, json=fields, headers={"x-request-id": f"client-{number}"}).raise_for_status()


def fetch(server: Running) -> list[RequestRecord]:
    headers = {"authorization": f"Bearer {server.service.admin.value}"}
    lines = server.client.get("/x/requests?limit=1000", headers=headers).json()["requests"]
    return [record_from(server.client.get(f"/x/requests/{line['id']}", headers=headers).json()) for line in lines]


@pytest.fixture(scope="module")
def records(smollm2_path: Path) -> Iterator[list[RequestRecord]]:
    with running(crowded(smollm2_path)) as server:
        ask(server, 99)  # whose prefix the others find
        threads = [threading.Thread(target=ask, args=(server, number)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        fields = {"prompt": STORY, "max_tokens": 120, "stream": True, "ignore_eos": True, "seed": 4}
        named = {"x-request-id": "cancelled"}
        with server.client.stream("POST", COMPLETIONS, json=fields, headers=named) as reply:
            for number, _ in enumerate(reply.iter_lines()):
                if number > 20:
                    break
        for thread in threads:
            thread.join()
        until(lambda: len(fetch(server)) == CLIENTS + 3)
        yield fetch(server)


@pytest.fixture(scope="module")
def alone(records: list[RequestRecord]) -> Iterator[Engine]:
    with engine_for(records[0], threads=1) as engine:
        yield engine


def test_what_was_made_among_many_is_replayed_alone(records: list[RequestRecord], alone: Engine) -> None:
    assert sum(record.figures.preemptions for record in records) > 0, "no pages were taken from anybody"
    assert sum(record.figures.cached for record in records) > 0
    assert {record.choice for record in records} == {0, 1}
    for record in records:
        done = replay(alone, record)
        assert done.same and done.parting is None and done.equal == record.tokens == done.hashes, replay_json(done)
        assert done.differences == ()
    cancelled = next(record for record in records if record.request == "cancelled")
    assert replay(alone, cancelled).forced and 0 < cancelled.tokens < 120


def test_in_a_fresh_process_on_one_thread(records: list[RequestRecord], tmp_path: Path) -> None:
    record = max(records, key=lambda one: (one.figures.preemptions, one.figures.cached))
    (tmp_path / "kept.json").write_text(dump_record(record))
    command = [sys.executable, "-m", "cutaway", "replay", "kept.json", "--threads", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"replay: {record.tokens}/{record.tokens} equal, logits of {record.tokens} rows equal" in done.stdout
    (tmp_path / "changed.json").write_text(dump_record(replace(record, seed=record.seed + 1)))
    told = subprocess.run([*command[:4], "changed.json", "--json"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert told.returncode == 1 and json.loads(told.stdout)["same"] is False


def sampled(records: list[RequestRecord]) -> RequestRecord:
    return next(record for record in records if record.request == "client-3")


def changed(ids: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*ids[:at], (ids[at] + 1) % 49152, *ids[at + 1 :])


@pytest.mark.parametrize("at", [0, 1, 44, 88])
def test_one_changed_token_is_found_where_it_is(records: list[RequestRecord], alone: Engine, at: int) -> None:
    record = sampled(records)
    assert record.token_ids is not None
    done = replay(alone, replace(record, token_ids=changed(record.token_ids, at)))
    assert not done.same and done.equal == at and done.parting is not None
    assert (done.parting.at, done.parting.by, done.parting.here) == (at, "token", record.token_ids[at])
    assert done.parting.margin is not None and done.parting.recorded == changed(record.token_ids, at)[at]


@pytest.mark.parametrize("at", [0, 50, 89])
def test_one_changed_hash_is_found_where_it_is(records: list[RequestRecord], alone: Engine, at: int) -> None:
    record = sampled(records)
    assert record.hashes is not None
    other = f"{int(record.hashes[at], 16) ^ 1:016x}"
    done = replay(alone, replace(record, hashes=(*record.hashes[:at], other, *record.hashes[at + 1 :])))
    assert not done.same and done.parting is not None and (done.parting.at, done.parting.by) == (at, "logits")


def test_a_changed_seed_prompt_length_or_parameter_is_found(records: list[RequestRecord], alone: Engine) -> None:
    record = sampled(records)
    assert record.prompt_ids is not None and record.token_ids is not None and record.hashes is not None
    short = {"tokens": 80, "token_ids": record.token_ids[:80], "token_ms": record.token_ms[:80],
             "hashes": record.hashes[:80]}  # fmt: skip
    for wrong in (
        replace(record, seed=record.seed ^ 1), replace(record, prompt_ids=changed(record.prompt_ids, 2)),
        replace(record, parameters=record.parameters.replace(top_p=0.5)), replace(record, choice=1),
        replace(record, **short), replace(record, end=Ending("end_token", None, 200)),
    ):  # fmt: skip
        done = replay(alone, wrong)
        assert not done.same
        assert done.parting is not None or done.end != done.recorded_end
    assert replay(alone, replace(record, end=Ending("cancelled"), **short)).same  # a forced length is no difference


def test_another_machine_is_named(records: list[RequestRecord], alone: Engine) -> None:
    record = sampled(records)
    system = replace(record.system, instruction_set="rvv", sha256="ab" * 32, build="0.0.1+x")
    done = replay(alone, replace(record, system=system))
    assert done.same and {one.name: one.recorded for one in done.differences} == {
        "instruction_set": "rvv", "sha256": "ab" * 32, "build": "0.0.1+x",
    }  # fmt: skip


def test_another_instruction_set_gives_the_step_and_the_margin(records: list[RequestRecord], tmp_path: Path) -> None:
    """Whether tokens part depends on the sets; logits do unless the sets give equal bits, and it is said which."""
    record = sampled(records)
    (tmp_path / "kept.json").write_text(dump_record(record))
    command = [sys.executable, "-m", "cutaway", "replay", "kept.json", "--json"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "CUTAWAY_ISA": "plain"})  # fmt: skip
    done = json.loads(told.stdout)
    assert "instruction_set" in [one["name"] for one in done["differences"]]
    assert done["same"] or done["parting"]["at"] < record.tokens
    assert done["same"] is (told.returncode == 0)


def test_what_cannot_be_replayed_says_why(records: list[RequestRecord], alone: Engine) -> None:
    record = sampled(records)
    figures = replace(record, level="figures", prompt_ids=None, token_ids=None)
    for wrong in (figures, replace(record, own_stages=1)):
        with pytest.raises(RecordError):
            replay(alone, wrong)
    with pytest.raises(RecordError):
        known_answer(figures)
