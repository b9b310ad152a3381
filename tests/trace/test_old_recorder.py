"""Recorders that have `active` in place of `wants` work for one version more, with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutaway import Engine, SamplingParams
from cutaway.trace import NULL, MemoryRecorder, Record, with_wants
from text.conftest import byte_level
from tiny_llama import write_gguf


class Older:
    """As the recorders of version 0.1 were."""

    def __init__(self) -> None:
        self.active = True
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.active = False


def test_an_older_recorder_gets_what_a_new_one_gets(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", byte_level())
    older, newer = Older(), MemoryRecorder()
    asked = SamplingParams(max_tokens=3, seed=1)
    with pytest.warns(DeprecationWarning, match=r"Older has `active` and no `wants"):
        engine = Engine.load(path, recorder=older)  # type: ignore[arg-type]
    with engine:
        engine.generate("hello", asked)
        older.active = False
        count = len(older.records)
        engine.generate("hello", asked)
        assert len(older.records) == count > 3
    with Engine.load(path, recorder=newer) as engine:
        engine.generate("hello", asked)
    assert [type(record) for record in older.records] == [type(record) for record in newer.records]


def test_a_new_one_is_left_alone_and_what_is_none_is_refused() -> None:
    newer = MemoryRecorder()
    assert with_wants(newer) is newer and with_wants(NULL) is NULL
    with pytest.raises(TypeError, match="list is no recorder"):
        with_wants([])  # type: ignore[arg-type]
