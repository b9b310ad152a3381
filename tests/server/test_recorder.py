"""A server whose requests are recorded."""

from __future__ import annotations

from pathlib import Path

from cutaway.trace import MemoryRecorder, StepRecord, TokenRecord
from server.serving import COMPLETIONS, config_for, running


def test_records_carry_the_id_of_the_request(smollm2_path: Path) -> None:
    recorder = MemoryRecorder(only={"seen", "two#1"})
    asked = {"prompt": "The sea is", "max_tokens": 4, "temperature": 0}
    with running(config_for(smollm2_path), recorder=recorder) as server:
        texts = [
            server.client.post(COMPLETIONS, json=asked, headers={"x-request-id": id}).json()["choices"][0]["text"]
            for id in ("seen", "unseen")
        ]
        both = asked | {"prompt": ["The sea is", "The sky is"]}
        assert server.client.post(COMPLETIONS, json=both, headers={"x-request-id": "two"}).status_code == 200
    tokens = [record for record in recorder.records if isinstance(record, TokenRecord)]
    assert [record.request for record in tokens] == ["seen"] * 4 + ["two#1"] * 4
    assert b"".join(record.bytes for record in tokens[:4]).decode() == texts[0] == texts[1]
    steps = [record for record in recorder.records if isinstance(record, StepRecord)]
    assert {name for step in steps for name in step.requests} == {"seen", "unseen", "two#0", "two#1"}
