"""What is kept of the last requests: within bounds, by caller, in memory and on disk."""

from __future__ import annotations

import os
import stat
import threading
import time
from array import array
from pathlib import Path
from typing import Any

import pytest

from cutaway.engine import Finished, Timings, Usage
from cutaway.engine.notes import Notes
from cutaway.errors import ConfigError, ParameterError, RecordError
from cutaway.sampling import Choice, StopReason
from cutaway.xray.flight_recorder import Bounds, FlightRecorder
from cutaway.xray.record import System
from cutaway.xray.record_json import dump_record, parse_record
from cutaway.xray.recorded import Kept, Origin, kept, known_answer
from cutaway.xray.request_list import Wanted, listed, parse_since, summary
from xray.records import PARAMS

SYSTEM = System("smol", "", "0.1.0", "avx2", "native", "bf16", "bf16", 512)


def one(
    request: str = "r", caller: str = "key a", *, tokens: int = 3, level: Any = "contents", began: float | None = None,
    kind: Any = "length", **more: Any,
) -> Kept:
    notes = Notes(time.monotonic())
    for token in range(tokens):
        notes.token(Choice(100 + token, rank=token + 1), processed=False)
    end = Finished(
        1, more.pop("choice", 0), "", StopReason(kind, None, tokens - 1), Usage(4, tokens, 2),
        Timings(0.1, 0.2, more.pop("decode", 0.3), 0.6), 77, notes=notes, warnings=("from the engine",),
    )  # fmt: skip
    origin = Origin(request, caller, time.time() if began is None else began, "/v1/completions", SYSTEM, PARAMS)
    return kept(origin, end, array("i", [1, 2, 3, 4]), level, **more)


def everybody(_caller: str) -> bool:
    return True


def test_a_record_is_whole_when_somebody_looks() -> None:
    recorder = FlightRecorder()
    recorder.add(one(warnings=["from the route"], status=200))
    record = recorder.find("r", everybody)
    assert record is not None and parse_record(dump_record(record)) == record
    assert record.prompt_ids == (1, 2, 3, 4) and record.token_ids == (100, 101, 102) and record.ranks == (1, 2, 3)
    assert len(record.token_ms) == 3 and record.probabilities is None and record.hashes is None
    assert record.warnings == ("from the route", "from the engine") and record.end.status == 200
    known = known_answer(record)
    assert (known.prompt, known.answer, known.seed) == ((1, 2, 3, 4), (100, 101, 102), 77)


def test_figures_hold_no_ids_anywhere() -> None:
    small = one(level="figures")
    assert not small.prompt and not small.notes.tokens
    record = small.record()
    assert parse_record(dump_record(record)) == record
    assert record.prompt_ids is None and record.tokens == 3 and record.prompt_tokens == 4 and record.warnings == ()
    assert record.parameters.stop == () and "stop" in record.withheld
    with pytest.raises(RecordError, match="figures only"):
        known_answer(record)


def test_the_bounds_hold_each_alone() -> None:
    for bounds in (Bounds(count=5), Bounds(size=5 * one().size)):
        recorder = FlightRecorder(bounds=bounds)
        for number in range(50):
            recorder.add(one(str(number)))
        assert len(recorder) == 5 and recorder.dropped == 45 and recorder.size <= bounds.size
        assert [head.request for head in recorder.heads()] == ["49", "48", "47", "46", "45"]
        assert recorder.find("44", everybody) is None
    now = 1e9
    recorder = FlightRecorder(bounds=Bounds(seconds=60), clock=lambda: now)
    recorder.add(one("old", began=now - 50))
    recorder.add(one("new", began=now))
    assert len(recorder) == 2
    now += 30
    assert [head.request for head in recorder.heads()] == ["new"]
    now += 100
    assert len(recorder) == 0 == recorder.size


def test_one_that_is_larger_than_all_is_not_kept() -> None:
    recorder = FlightRecorder(bounds=Bounds(size=100_000))
    recorder.add(one("small"))
    recorder.add(one("huge", tokens=50_000))
    assert recorder.size <= 100_000 and recorder.find("huge", everybody) is None


def test_the_counted_bytes_are_not_less_than_the_taken_ones() -> None:
    import tracemalloc

    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    recorder = FlightRecorder()
    for number in range(200):
        recorder.add(one(str(number), tokens=200))
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken <= recorder.size <= 4 * taken


def test_callers_find_their_own_and_nobody_elses() -> None:
    recorder = FlightRecorder()
    mine, other = one("..", "key a"), one("..", "key b")
    recorder.add(mine)
    recorder.add(other)

    def own(caller: str) -> bool:
        return caller == "key a"

    for name in ("..", mine.id):
        record = recorder.find(name, own)
        assert record is not None and record.id == mine.id
    assert recorder.find(other.id, own) is None
    latest = recorder.find("..", everybody)
    assert latest is not None and latest.id == other.id


def test_a_name_means_the_first_answer_of_the_latest_request() -> None:
    recorder = FlightRecorder()
    now = time.time()
    for began in (now - 5, now):
        for choice in (1, 0, 2):
            recorder.add(one("same", began=began, choice=choice))
    record = recorder.find("same", everybody)
    assert record is not None and record.choice == 0 and record.began == now


def test_lists() -> None:
    kinds = ("length", "cancelled", "end_token")
    ended = [one(str(i), began=1000.0 + i, kind=kind, decode=1.0).head for i, kind in enumerate(kinds)]
    latest_first = ended[::-1]
    assert [line["request"] for line in listed(latest_first, Wanted())] == ["2", "1", "0"]
    assert [line["request"] for line in listed(latest_first, Wanted(failed=True))] == ["1"]
    assert [line["request"] for line in listed(latest_first, Wanted(since=1001.0, limit=1))] == ["2"]
    assert listed(latest_first, Wanted(model="other")) == []
    assert not {"prompt_ids", "token_ids", "warnings", "parameters"} & summary(ended[0]).keys()
    for limit in (0, 1001):
        with pytest.raises(ParameterError):
            Wanted(limit=limit)


def test_since() -> None:
    for text, ago in (("90s", 90), ("1.5m", 90), ("2 h", 7200), ("1d", 86_400)):
        assert abs(time.time() - parse_since(text) - ago) < 2
    assert parse_since("2026-12-01T00:00:00+00:00") == 1_796_083_200
    for wrong in ("", "5", "m", "-5m", "tomorrow", "1e9d", "99999-01-01"):
        with pytest.raises(ParameterError, match="since is"):
            parse_since(wrong)


# --- on disk ----------------------------------------------------------------------------------------------------------
def test_files_are_whole_private_and_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    old = os.umask(0)
    try:
        recorder = FlightRecorder(bounds=Bounds(count=4), folder=folder)
        (folder / "mine.txt").write_text("stays")
        for number in range(10):
            recorder.add(one(str(number)))
        recorder.close()
    finally:
        os.umask(old)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.glob("*.json"))
    assert len(files) == 4 and (folder / "mine.txt").exists()
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert all(parse_record(path.read_text()).id == path.stem for path in files)


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a folder of this user"):
        FlightRecorder(folder=tmp_path / "link")
    (tmp_path / "shared").mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="others can look into"):
        FlightRecorder(folder=tmp_path / "shared")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755  # and it stays as it was


def test_a_disk_that_fails_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    recorder = FlightRecorder(folder=tmp_path / "records", failed=told.append)
    (tmp_path / "records").rmdir()
    for number in range(5):
        recorder.add(one(str(number)))
    recorder.close()
    assert len(told) == 1 and len(recorder) == 5


def test_many_threads() -> None:
    recorder = FlightRecorder(bounds=Bounds(count=50))

    def work(name: str) -> None:
        for number in range(200):
            recorder.add(one(f"{name}{number}"))
            recorder.find("a1", everybody)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder) == 50 and recorder.size == sum(k.size for k in recorder._kept.values())
