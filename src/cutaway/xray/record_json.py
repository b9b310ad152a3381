"""A request record as JSON, and back from a file of unknown origin: every field is checked."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, cast

from cutaway.errors import RecordError
from cutaway.xray.checked_json import Fields
from cutaway.xray.parameters_json import parameters_from, parameters_json
from cutaway.xray.record import VERSION, Ending, Figures, Level, PrefillChunk, RequestRecord, Slide, System

LONGEST = 2**22
"""Tokens of a prompt or an answer that a record may hold."""
LARGEST_FILE = 2**28
"""Bytes of a record's file."""
_TOKEN = 2**31 - 1
_MS = 1e12
_HASH = re.compile(r"[0-9a-f]{16}")
_ID = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)


def record_json(record: RequestRecord) -> dict[str, Any]:
    """As a JSON object; the field `record` says what it is."""
    found = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    for name in ("system", "end", "figures"):
        found[name] = dataclasses.asdict(found[name])
    for name in ("chunks", "slides"):
        found[name] = [dataclasses.asdict(one) for one in found[name]]
    found["parameters"] = parameters_json(record.parameters)
    return {"record": "request", "version": found.pop("version"), **found}


def dump_record(record: RequestRecord) -> str:
    """One line of ASCII."""
    return json.dumps(record_json(record), allow_nan=False, separators=(",", ":"))


def parse_record(text: str | bytes) -> RequestRecord:
    """Raises RecordError."""
    if len(text) > LARGEST_FILE:
        raise RecordError(f"a record has at most {LARGEST_FILE} bytes, and this one has {len(text)}")
    try:
        return record_from(json.loads(text, parse_constant=_no_number))
    except RecursionError:
        raise RecordError("the record is nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, an integer of thousands of digits
        raise RecordError(f"the record is not JSON: {str(error)[:200]}") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def record_from(value: Any) -> RequestRecord:
    """A record from its JSON object. Raises RecordError, which names the field."""
    fields = Fields(value, "record")
    if fields.raw("record") != "request":
        raise RecordError("this is not the record of a request: its field `record` must be 'request'")
    if (version := fields.integer("version", 1)) > VERSION:
        raise RecordError(f"the record has version {version}, and this cutaway reads up to {VERSION}")
    found = RequestRecord(
        version=version,
        id=_record_id(fields),
        request=fields.text("request", 200),
        caller=fields.text("caller", 200),
        began=fields.number("began"),
        path=fields.text("path", 200),
        level=cast(Level, fields.word("level", "figures", "contents")),
        system=_system(fields.object("system")),
        parameters=parameters_from(fields.raw("parameters")),
        seed=fields.integer("seed", -(2**63), 2**64 - 1),
        prompt_tokens=fields.integer("prompt_tokens", 0, LONGEST),
        tokens=fields.integer("tokens", 0, LONGEST),
        end=_ending(fields.object("end")),
        prompt=fields.integer("prompt"),
        choice=fields.integer("choice"),
        withheld=fields.texts("withheld", 200, 100),
        own_stages=fields.integer("own_stages"),
        clock=fields.optional(fields.number, "clock"),
        prompt_ids=fields.optional(fields.integers, "prompt_ids", _TOKEN, LONGEST),
        token_ids=fields.optional(fields.integers, "token_ids", _TOKEN, LONGEST),
        token_ms=fields.numbers("token_ms", _MS, LONGEST),
        ranks=_each(fields, "ranks", "integer", 1, _TOKEN),
        probabilities=_each(fields, "probabilities", "number", 0.0, 1.0),
        hashes=_hashes(fields),
        chunks=tuple(_chunk(one) for one in fields.objects("chunks", LONGEST)),
        slides=tuple(_slide(one) for one in fields.objects("slides", LONGEST)),
        figures=_figures(fields.object("figures")),
        warnings=fields.texts("warnings", 1000, 10_000),
    )
    _agree(found)
    return found


def _record_id(fields: Fields) -> str:
    """It names files: nothing else is in it than what a name of a file may have everywhere."""
    found = fields.text("id", 64)
    if not _ID.fullmatch(found):
        raise RecordError("record.id must be letters, digits, - and _")
    return found


def _system(fields: Fields) -> System:
    sha256 = fields.text("sha256", 64)
    if sha256 and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise RecordError("record.system.sha256 must be 64 hex digits, or empty")
    return System(
        model=fields.text("model"),
        sha256=sha256,
        build=fields.text("build", 200),
        instruction_set=fields.text("instruction_set", 40),
        backend=fields.text("backend", 40),
        kv_k=fields.text("kv_k", 20),
        kv_v=fields.text("kv_v", 20),
        context=fields.integer("context", 1, _TOKEN),
        template=fields.optional(fields.text, "template", 64),
        rope_scaling=fields.optional(fields.text, "rope_scaling", 200),
        adapter=fields.optional(fields.text, "adapter", 200),
        threads=fields.optional(fields.integer, "threads", 1, 100_000),
        source=fields.optional(fields.text, "source", 5000),
    )


def _ending(fields: Fields) -> Ending:
    matched = fields.raw("matched")
    if isinstance(matched, int):
        matched = fields.integer("matched", 0, _TOKEN)
    elif matched is not None:
        matched = fields.text("matched", 100_000)
    return Ending(
        kind=fields.text("kind", 40),
        matched=matched,
        status=fields.integer("status", 0, 999),
        error=fields.optional(fields.text, "error", 100),
        message=fields.optional(fields.text, "message", 100_000),
    )


def _figures(fields: Fields) -> Figures:
    times = {
        name: fields.optional(fields.number, name, 0.0, _MS)
        for name in ("queued_ms", "prefill_ms", "decode_ms", "total_ms")
    }
    return Figures(
        **times,
        cached=fields.integer("cached"),
        broke_at=fields.optional(fields.integer, "broke_at"),
        broke_by=fields.optional(fields.text, "broke_by", 100),
        pages=fields.optional(fields.integer, "pages"),
        preemptions=fields.integer("preemptions"),
        drafted=fields.integer("drafted"),
        accepted=fields.integer("accepted"),
    )


def _chunk(fields: Fields) -> PrefillChunk:
    return PrefillChunk(
        fields.integer("start", 0, LONGEST), fields.integer("tokens", 0, LONGEST), fields.number("done_ms", 0.0, _MS)
    )


def _slide(fields: Fields) -> Slide:
    prompt = fields.optional(fields.integers, "prompt", _TOKEN, LONGEST)
    return Slide(fields.integer("after", 0, LONGEST), prompt)


def _each(fields: Fields, name: str, kind: str, low: float, high: float) -> Any:
    """One value or null per token, or no list at all."""
    if not fields.has(name):
        return None
    found = [None if one is None else Fields({name: one}, "record") for one in fields.items(name, LONGEST)]
    return tuple(None if one is None else getattr(one, kind)(name, low, high) for one in found)


def _hashes(fields: Fields) -> tuple[str, ...] | None:
    if not fields.has("hashes"):
        return None
    found = fields.texts("hashes", LONGEST, 16)
    if any(not _HASH.fullmatch(one) for one in found):
        raise RecordError("record.hashes must hold 16 hex digits each")
    return found


def _agree(record: RequestRecord) -> None:
    """Fields that must fit one another."""
    if (record.prompt_ids is None) != (record.level == "figures"):
        raise RecordError("record.prompt_ids must be there exactly at the level 'contents'")
    if (record.token_ids is None) != (record.level == "figures"):
        raise RecordError("record.token_ids must be there exactly at the level 'contents'")
    lists: dict[str, tuple[Any, int]] = {
        "prompt_ids": (record.prompt_ids, record.prompt_tokens), "token_ids": (record.token_ids, record.tokens),
        "token_ms": (record.token_ms, record.tokens), "ranks": (record.ranks, record.tokens),
        "probabilities": (record.probabilities, record.tokens), "hashes": (record.hashes, record.tokens),
    }  # fmt: skip
    for name, (found, count) in lists.items():
        if found is not None and len(found) != count:
            raise RecordError(f"record.{name} has {len(found)} entries for {count} tokens")
