"""The last records of `run` and `chat`: files of this user alone, in its state folder."""

from __future__ import annotations

import contextlib
from array import array
from pathlib import Path

from cutaway.engine import Answer, Finished, Result
from cutaway.errors import ConfigError, RecordError
from cutaway.xray.record import RequestRecord
from cutaway.xray.record_json import LARGEST_FILE, dump_record, parse_record
from cutaway.xray.recorded import Origin, kept
from cutaway.xray.server_state import private_folder, read_private, state_folder, write_private

KEPT = 20


def records_folder() -> Path:
    return state_folder() / "records"


def keep_own(origin: Origin, result: Result) -> None:
    """Record each answer, and let the oldest records go. Raises OSError, ConfigError where that cannot be done."""
    private_folder(state_folder())
    folder = private_folder(records_folder())
    prompt = array("i", result.prompt_token_ids)
    for choice, answer in enumerate(result.answers):
        if answer.notes is not None:
            record = kept(origin, _finished(result, answer, choice), prompt, "contents").record()
            write_private(folder / f"{record.id}.json", dump_record(record))
    for path in _newest_first(folder)[KEPT:]:
        path.unlink(missing_ok=True)


def is_own(record: RequestRecord) -> bool:
    """Whether it is one of these."""
    return (records_folder() / f"{record.id}.json").is_file()


def own_records() -> list[RequestRecord]:
    """The latest first. A file that cannot be read is none."""
    found = []
    for path in _newest_first(records_folder()):
        with contextlib.suppress(OSError, RecordError, ConfigError):
            found.append(parse_record(read_private(path, LARGEST_FILE)))
    return found


def _newest_first(folder: Path) -> list[Path]:
    found = []
    for path in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            found.append((path.lstat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _finished(result: Result, answer: Answer, choice: int) -> Finished:
    """The event that the answer was made of."""
    return Finished(
        0, choice, "", answer.stop, result.usage, answer.timings, result.seed, None, result.warnings, answer.error,
        result.broke, answer.notes,
    )  # fmt: skip
