"""`cutaway explain` on records of the real model: what it shows, and that the JSON holds the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from cutaway import Engine, SamplingParams
from cutaway.cli import main
from cutaway.errors import ParameterError
from cutaway.xray.explanation import token_named
from cutaway.xray.record import Ending, System
from cutaway.xray.record_json import dump_record
from xray.records import made

pytestmark = pytest.mark.models
SETTINGS = SamplingParams(temperature=0.8, top_k=40, top_p=0.9, repetition_penalty=1.1, seed=7, max_tokens=24)
CHAT = [{"role": "user", "content": "Name three colours, and one in Chinese."}]
Record = Callable[..., Path]


@pytest.fixture(scope="module")
def record(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    folder = tmp_path_factory.mktemp("records")
    system = System(str(smollm2_path), "", "0", "any", "native", "bf16", "bf16", 256)
    with Engine.load(smollm2_path, context=256, contexts=1) as engine:

        def write(params: SamplingParams = SETTINGS, **changes: Any) -> Path:
            prompt = engine.token_ids(CHAT)
            (result,) = engine.generate([prompt], params)
            ids = result.token_ids
            path = folder / f"{len(list(folder.iterdir()))}.json"
            fields = {
                "system": system, "parameters": params, "seed": result.seed, "prompt_ids": tuple(prompt),
                "prompt_tokens": len(prompt), "token_ids": ids, "tokens": len(ids), "choice": 0, "slides": (),
                "end": Ending(result.stop.kind, result.stop.matched, 200), "token_ms": (1.0,) * len(ids),
                "ranks": None, "probabilities": None, "hashes": None,
            }  # fmt: skip
            path.write_text(dump_record(made(**(fields | changes))), "utf-8")
            return path

        yield write


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as left:
        main(["explain", *map(str, arguments)])
    captured = capsys.readouterr()
    assert left.value.code == 0, captured.err
    assert all(cell_len(line) <= 100 for line in captured.out.splitlines() if not line.startswith("{"))
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as left:
        main(["explain", *map(str, arguments)])
    assert left.value.code == 2
    return capsys.readouterr().err


def test_the_whole_answer(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    path = record()
    shown = " ".join(told(capsys, path).split())
    assert "stopped: length: max_tokens was reached: 24 tokens" in shown
    assert "the 10 least certain of 24 tokens" in shown and "cost: " in shown and "no request ran beside it" in shown
    found = json.loads(told(capsys, path, "--json"))
    assert [one["position"] for one in found["tokens"]] == list(range(24))
    assert all(one["redrawn"] == one["token"] for one in found["tokens"]) and found["findings"] == []
    stages = ["model", "repetition_penalty", "temperature", "top_k", "top_p"]
    assert [stage["name"] for stage in found["tokens"][3]["stages"]] == stages
    assert found["cost"]["rows"] == 24 and found["cost"]["others_milliseconds"] == 0
    assert found["leads"] == [] and found["loop"] is None and found["stop"]["kind"] == "length"
    every = told(capsys, path, "--tokens", "--first", 2, "--last", 6)
    rows = [line.split()[0] for line in every.splitlines() if re.match(r" *\d+  .*%", line)]
    assert rows == list("23456")


def test_one_token_and_where_its_alternatives_lead(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    path = record()
    found = json.loads(told(capsys, f"{path}@4", "--token", "#28", "--lead", 6, "--json"))
    (one,) = found["tokens"]
    assert one["position"] == 4 and [a["token"] for a in one["alternatives"]][-1] == 28
    own, *others = found["leads"]
    answer = json.loads(told(capsys, path, "--json"))["tokens"]
    assert own["continuation"] == [t["token"] for t in answer[5:11]] and own["same_as_answer"] == 6
    assert {lead["token"] for lead in others} == {a["token"] for a in one["alternatives"]}
    assert all(len(lead["continuation"]) == 6 or lead["ended"] for lead in others)
    shown = told(capsys, f"{path}@4", "--token", "#28")
    for name in ("model", "repetition_penalty", "temperature", "top_k", "top_p", "KL(before)", "and then"):
        assert name in shown


def test_a_form_names_what_it_does_not_let_come(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    path = record(SETTINGS.replace(regex="(red|green) [0-9]{3}"))
    found = json.loads(told(capsys, f"{path}@0", "--json"))
    refusals = [lead["refused"] for lead in found["leads"]]
    assert refusals[0] is None and any(refusals)
    cut = [a["cut_by"] for a in found["tokens"][0]["alternatives"]]
    assert "constraint" in cut
    assert [f["code"] for f in found["findings"]] == ["form_at_high_temperature"]
    assert "cannot follow" in told(capsys, f"{path}@0")


def test_what_cannot_be_had_again_is_a_finding(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, record(seed=1234), "--json"))
    assert "not_reproduced" in {finding["code"] for finding in found["findings"]}


def test_wrong_requests(record: Record, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = record()
    assert "0 to 23" in refused(capsys, f"{path}@24")
    assert "REQUEST@57" in refused(capsys, path, "--token", "#3")
    assert "best must be" in refused(capsys, path, "--best", 51)
    (bad := tmp_path / "bad.json").write_text("{}")
    assert "record" in refused(capsys, bad)
    assert "kv_k" in refused(capsys, record(system=System(str(path), "", "0", "x", "native", "f7", "bf16", 64)))
    figures = record(level="figures", prompt_ids=None, token_ids=None)
    assert "figures only" in refused(capsys, figures)
    assert "no server" in refused(capsys, "there-is-none", "--url", "http://127.0.0.1:9")


def test_names_of_tokens(smollm2_path: Path) -> None:
    from cutaway.formats import open_model
    from cutaway.text import load_tokenizer

    with open_model(smollm2_path) as file:
        tokenizer = load_tokenizer(file.path, file.metadata)
    assert token_named("#28", tokenizer) == 28
    assert token_named(" the", tokenizer) == tokenizer.encode_part(" the")[0]
    for wrong in ("#99999", "two words here", ""):
        with pytest.raises(ParameterError):
            token_named(wrong, tokenizer)
