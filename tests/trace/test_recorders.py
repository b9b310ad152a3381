from __future__ import annotations

import io
import json
from pathlib import Path
from threading import Thread

from cutaway.trace import NULL, JsonlRecorder, MemoryRecorder, NullRecorder, Recorder, StageRecord

RECORD = StageRecord(name='top_p\n"é\u2028', kept=3, entropy=0.5, kl=0.0, probability=0.5, rank=1)


def test_null() -> None:
    assert isinstance(NULL, NullRecorder)
    assert not NULL.wants("step") and not NULL.wants("token", "1")
    NULL.record(RECORD)
    NULL.close()


def test_all_are_recorders() -> None:
    assert all(isinstance(made, Recorder) for made in (NULL, MemoryRecorder(), JsonlRecorder(io.StringIO())))


def test_memory() -> None:
    recorder = MemoryRecorder()
    assert recorder.wants("step") and recorder.wants("token", "1")
    recorder.record(RECORD)
    recorder.close()
    assert recorder.records == [RECORD]
    assert not recorder.wants("step") and not recorder.wants("token", "1")


def test_each_line_is_whole_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    recorder = JsonlRecorder(path)
    recorder.record(RECORD)
    text = path.read_text("utf-8")
    assert text.endswith("\n") and len(text.splitlines()) == 1
    assert json.loads(text)["name"] == RECORD.name
    recorder.close()
    recorder.close()
    recorder.record(RECORD)
    assert path.read_text("utf-8") == text


def test_append_and_anew(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    for append, lines in ((False, 1), (True, 2), (False, 1)):
        with JsonlRecorder(path, append=append) as recorder:
            recorder.record(RECORD)
        assert len(path.read_text("utf-8").splitlines()) == lines


def test_a_stream_is_left_open() -> None:
    stream = io.StringIO()
    with JsonlRecorder(stream) as recorder:
        recorder.record(RECORD)
    assert json.loads(stream.getvalue())["kept"] == 3


def test_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonlRecorder(path) as recorder:
        threads = [Thread(target=lambda: [recorder.record(RECORD) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 200
    assert all(json.loads(line)["record"] == "stage" for line in lines)
