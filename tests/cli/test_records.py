"""`cutaway requests`, `replay` and `branch`, over the records that `run` and `chat` leave."""

from __future__ import annotations

import io
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from cutaway.cli import main
from cutaway.cli.branch import _value
from cutaway.cli.requests import HEADINGS, _short
from cutaway.errors import ParameterError
from cutaway.xray.find_record import find_record, split_place
from cutaway.xray.own_records import KEPT, own_records, records_folder
from cutaway.xray.record_json import dump_record
from xray.records import made

pytestmark = pytest.mark.models


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


class Cutaway:
    def __init__(self, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.model = str(model)
        self.capsys = capsys
        self.err = ""

    def __call__(self, *arguments: str, status: int = 0) -> str:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        out, self.err = self.capsys.readouterr()
        assert left.value.code == status, self.err
        return out

    def run(self, *arguments: str) -> str:
        return self("run", "-m", self.model, "-n", "10", "-t", "0.9", *arguments)


@pytest.fixture
def cutaway(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> Cutaway:
    return Cutaway(smollm2_path, capsys)


def test_an_answer_is_kept_listed_replayed_and_branched(cutaway: Cutaway, smollm2_path: Path) -> None:
    answer = cutaway.run("Name three colours. 三种颜色", "--seed", "3", "--date", "2020-02-02")
    [record] = own_records()
    assert record.caller == "local" and record.path == "run" and record.seed == 3 and record.tokens == 10
    assert len(record.system.sha256) == 64 and record.system.source == str(smollm2_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in records_folder().iterdir()} == {0o600}
    table = cutaway("requests")
    assert all(heading in table for heading in HEADINGS) and record.request in table
    assert max(map(len, table.splitlines())) <= 100
    listed = json.loads(cutaway("requests", "--json"))["requests"]
    assert [line["id"] for line in listed] == [record.id]
    told = cutaway("replay", "last")
    assert "replay: 10/10 equal" in told
    same = json.loads(cutaway("replay", record.id, "--json", "--threads", "1"))
    assert same["same"] is True and same["differences"] == []
    way = json.loads(cutaway("branch", "last@2", "--token", "#260", "--json"))
    assert way["branch"]["tokens"][0] == 260 and way["sound"] is True
    shown = cutaway("branch", f"{record.request}@0", "--without-stage", "temperature", "--set", "top_k=5")
    assert "self-check: 10/10 equal" in shown and "top_k: " in shown
    assert answer.strip() and max(map(len, shown.splitlines())) < 400


def test_a_changed_record_is_found_out(cutaway: Cutaway, tmp_path: Path) -> None:
    cutaway.run("Tell me a secret.", "--seed", "9")
    document = json.loads(dump_record(own_records()[0]))
    document["token_ids"][4] += 1
    Path("changed.json").write_text(json.dumps(document))
    told = cutaway("replay", "changed.json", status=1)
    assert "replay: 4/10 equal" in told and "first difference at token 4: recorded" in told and "margin" in told
    document["token_ids"] = "no"
    Path("broken.json").write_text(json.dumps(document))
    cutaway("replay", "broken.json", status=2)
    assert "error[record_invalid]" in cutaway.err and "token_ids" in cutaway.err


def test_choices_and_chats_are_kept_too_and_only_the_last(
    cutaway: Cutaway, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutaway.run("One", "--choices", "3", "--seed", "1")
    assert sorted(record.choice for record in own_records()) == [0, 1, 2]
    assert "replay: 10/10 equal" in cutaway("replay", next(r.id for r in own_records() if r.choice == 2))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Hello\nAnd you?\n")))
    cutaway("chat", "-m", cutaway.model, "-n", "4", "-t", "0")
    assert [record.path for record in own_records()][:3] == ["chat", "chat", "run"]
    assert "replay: 4/4 equal" in cutaway("replay", "last")
    folder = records_folder()
    for number in range(KEPT + 5):
        (folder / f"{number:016x}.json").write_text("{}")
    cutaway.run("Another", "--seed", "1")
    assert len(list(folder.iterdir())) == KEPT


def test_remedies_of_a_loop(cutaway: Cutaway) -> None:
    cutaway("run", "--raw", "again and again " * 12, "-m", cutaway.model, "-n", "240", "-t", "0", "--ignore-eos")
    table = cutaway("branch", "last", "--remedies", "--length", "4")
    assert "the loop:" in table and "as it was" in table and "repetition_penalty=1.1" in table
    assert "temperature" not in table.replace("KL", ""), "greedy decoding cannot be cooled"
    told = json.loads(cutaway("branch", "last", "--remedies", "--length", "4", "--json"))
    assert told["record"] == "remedies" and [len(told["tried"]), told["own"]["tokens"]] == [3, 4]


def test_what_is_not_there(cutaway: Cutaway) -> None:
    assert cutaway("requests") == "" and "no requests are kept" in cutaway.err
    for arguments in (("replay", "last"), ("replay", "nothing"), ("branch", "last@3", "--token", "#5")):
        cutaway(*arguments, status=2)
        assert "error[record_not_found]" in cutaway.err
    cutaway("branch", "last", "--token", "x", status=2)
    assert "names no token" in cutaway.err
    cutaway("branch", "last@3", "--remedies", status=2)
    assert "begins where the loop does" in cutaway.err
    cutaway("replay", "missing.json", status=2)
    cutaway("requests", "--since", "soon", status=2)
    cutaway("requests", "--url", "http://127.0.0.1:9", status=2)
    assert "error[server_not_found]" in cutaway.err


def test_places_and_values() -> None:
    assert split_place("last@12") == ("last", 12) and split_place("a@b") == ("a@b", None)
    assert split_place("@3") == ("", 3) and split_place("x@\u00b2") == ("x@\u00b2", None)
    values: list[tuple[str, Any]] = [
        ("top_p=0.5", ("top_p", 0.5)), ("stop=abc", ("stop", "abc")), ("top-k=5", ("top_k", 5)),
        ('stop=["a"]', ("stop", ["a"])), ('logit_bias={"5": 1.5}', ("logit_bias", {5: 1.5})),
    ]  # fmt: skip
    for text, expected in values:
        assert _value(text) == expected
    with pytest.raises(ParameterError, match="NAME=VALUE"):
        _value("top_p")


def test_text_of_clients_cannot_move_the_cursor(tmp_path: Path) -> None:
    assert _short("\x1b[2Jred", 24) == "?[2Jred" and len(_short("x" * 100, 24)) == 24
    path = tmp_path / "kept.json"
    path.write_text(dump_record(made()))
    assert find_record(str(path)) == made()
