"""Finding a record by its name: a file, an id at a server or of the last runs, or the last one of all."""

from __future__ import annotations

import re
from pathlib import Path

from cutaway.errors import CutawayError, RecordError
from cutaway.xray.own_records import own_records
from cutaway.xray.record import RequestRecord
from cutaway.xray.record_json import LARGEST_FILE, parse_record, record_from
from cutaway.xray.server_client import Target, target, targets

LAST = "last"
_PLAIN = re.compile(r"[0-9A-Za-z_-]{1,128}", re.ASCII)


def find_record(name: str, url: str | None = None) -> RequestRecord:
    """name: a record's file, its id, an x-request-id, or "last". url: ask this server only.

    Without `url`, all running servers of this user and the records of the last runs are searched. Raises CutawayError.
    """
    if is_record_file(name):
        return read_record(Path(name))
    if url is not None:
        found = _served(target(url), name)
        if found is None:
            raise RecordError(f"the server at {url} has no record {name!r}", code="record_not_found")
        return found
    candidates = [record for record in own_records() if name in (LAST, record.id, record.request)][:1]
    candidates += [record for server in targets() if (record := _served(server, name)) is not None]
    if not candidates:
        raise RecordError(
            f"there is no record {name!r}: no such file, none of the last runs, and no server that runs has it",
            hint="`cutaway requests` lists them; --url names a server", code="record_not_found",
        )  # fmt: skip
    return max(candidates, key=lambda record: record.began)


def split_place(text: str) -> tuple[str, int | None]:
    """`REQUEST@token` as its two parts; the token, from 0, None where none is named."""
    name, at, place = text.rpartition("@")
    if at and place.isascii() and place.isdigit() and len(place) < 10:
        return name, int(place)
    return text, None


def is_record_file(name: str) -> bool:
    """Whether a REQUEST means a file."""
    path = Path(name)
    return name != LAST and (path.suffix == ".json" or path.is_file())


def read_record(path: Path) -> RequestRecord:
    """Raises RecordError."""
    try:
        with path.open("rb") as file:
            return parse_record(file.read(LARGEST_FILE + 1))
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None


def _served(server: Target, name: str) -> RequestRecord | None:
    """What this server has under that name; None: nothing."""
    if not _PLAIN.fullmatch(name) or name == LAST:
        listed = server.ask("/x/requests", {"limit": 1, "request": None if name == LAST else name})
        lines = listed.get("requests") if isinstance(listed, dict) else None
        if not (isinstance(lines, list) and lines and isinstance(lines[0], dict)):
            return None
        name = str(lines[0].get("id"))
        if not _PLAIN.fullmatch(name):
            raise RecordError(f"{server.url} does not answer as a cutaway server does")
    try:
        return record_from(server.ask(f"/x/requests/{name}"))
    except CutawayError as error:
        if error.code == "record_not_found":
            return None
        raise
