"""A record of a request: what it says of itself, to JSON and back, and files that somebody has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import RecordError
from cutaway.sampling import SamplingParams
from cutaway.sampling.params import PARAMETERS
from cutaway.xray.parameters_json import CONTENTS, parameters_from, parameters_json, withhold_contents
from cutaway.xray.record import VERSION, Ending, RequestRecord, same_answer
from cutaway.xray.record_json import dump_record, parse_record, record_from, record_json
from xray.records import PARAMS, made


def test_a_record_comes_back_as_it_was() -> None:
    for record in (made(), made(seed=-(2**63)), made(clock=None, hashes=None, ranks=None, warnings=())):
        assert parse_record(dump_record(record)) == record
        assert parse_record(dump_record(record).encode()) == record
    figures = made(level="figures", prompt_ids=None, token_ids=None)
    assert parse_record(dump_record(figures)) == figures


def test_its_json_has_every_field_under_its_own_name() -> None:
    told = json.loads(json.dumps(record_json(made())))
    assert told["record"] == "request" and told["version"] == VERSION
    assert told["figures"]["queued_ms"] == 0.5 and told["system"]["kv_v"] == "int8"
    assert told.keys() == {"record", *(name for name in RequestRecord.__dataclass_fields__)}
    assert told["parameters"].keys() == {p.name for p in PARAMETERS if p.kind != "functions"}


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of every value in a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, one in inner for path in paths(one, (*at, key)))]


DOCUMENT: dict[str, Any] = json.loads(dump_record(made()))
PATHS = [path for path in paths(DOCUMENT) if path]
HOSTILE = [
    True, -1, 2**70, -(2**70), 1.5, float("nan"), float("inf"), "", "x" * 200_000, "\ud800", [], {}, [[]], [None],
    {"a": 1}, [2**70], "..", "../../etc/passwd", [-1], ["\ud800"],
]  # fmt: skip


def changed(path: tuple[Any, ...], value: Any) -> Any:
    document = json.loads(json.dumps(DOCUMENT))
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_any_value_in_any_field_is_read_or_refused_by_name(path: tuple[Any, ...]) -> None:
    for value in HOSTILE:
        try:
            record = parse_record(json.dumps(changed(path, value)))
        except RecordError as error:
            assert len(str(error)) < 3000
        else:  # what was taken can be written, and is then the same
            assert parse_record(dump_record(record)) == record


@pytest.mark.parametrize(
    "path", [p for p in PATHS if p[0] in ("id", "seed", "system", "token_ids", "end") and p != ("end", "matched")]
)
def test_wrong_types_are_never_taken(path: tuple[Any, ...]) -> None:
    for value in (True, [[]], {"a": {}}, 2**70, "\ud800"):
        with pytest.raises(RecordError, match=r"record|record\.\w+"):
            record_from(changed(path, value))


@pytest.mark.parametrize("name", [p[0] for p in PATHS if len(p) == 1])
def test_a_field_that_is_missing_is_none_or_refused(name: str) -> None:
    document = {key: value for key, value in DOCUMENT.items() if key != name}
    try:
        record = record_from(document)
    except RecordError as error:
        assert name in str(error)
    else:
        assert getattr(record, name) is None


def test_what_does_not_fit_together_is_refused() -> None:
    for change in ({"tokens": 3}, {"prompt_ids": [1]}, {"level": "figures"}, {"token_ms": []}, {"hashes": ["0" * 16]}):
        with pytest.raises(RecordError):
            record_from(DOCUMENT | change)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "[" * 100_000, '{"record":"step"}', '{"record":"request","version":99}', "9" * 5000,
             b"\xff\xfe", '{"record": "request", "version": 1}', "\x00"],
)  # fmt: skip
def test_what_is_no_record_is_refused(text: str | bytes) -> None:
    with pytest.raises(RecordError):
        parse_record(text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)
                    | st.dictionaries(st.sampled_from(sorted(DOCUMENT)), inner)))  # fmt: skip
def test_no_document_makes_anything_else_than_a_record_error(document: Any) -> None:
    with pytest.raises(RecordError):
        record_from(document)


def test_parameters_come_back_and_unknown_ones_are_refused() -> None:
    assert parameters_from(json.loads(json.dumps(parameters_json(PARAMS)))) == PARAMS
    for wrong in ({"stages": []}, {"temprature": 1}, {"temperature": "hot"}, {"reasoning": {"start": 1, "end": 2}}, []):
        with pytest.raises(RecordError):
            parameters_from(wrong)


def test_figures_hold_no_parameter_that_tells_a_text() -> None:
    params, names = withhold_contents(PARAMS)
    assert set(names) == {"logit_bias", "stop", "bad_words", "json_schema"}
    assert params.temperature == 0.7 and params.max_tokens == 9
    secret = [p for p in PARAMETERS if p.kind in CONTENTS]
    assert all(getattr(params, p.name) == getattr(SamplingParams(), p.name) for p in secret)


def test_where_two_answers_part() -> None:
    assert same_answer([1, 2, 3], (1, 2, 3)) is None
    assert same_answer([1, 2, 3], [1, 5, 3]) == 1
    assert same_answer([1, 2], [1, 2, 3]) == 2
    assert same_answer([], []) is None


def test_failed_and_forced() -> None:
    ends = {kind: made(end=Ending(kind, None, 200)) for kind in ("end_token", "cancelled", "error", "time", "length")}
    assert {kind for kind, record in ends.items() if record.failed} == {"cancelled", "error"}
    assert {kind for kind, record in ends.items() if record.forced_length} == {"cancelled", "error", "time"}
    assert made(end=Ending("length", None, 503)).failed
