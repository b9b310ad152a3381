"""Plans: where they come from, what fits, what to change, and the record that they make."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cutaway.bench.calibrate import work_of
from cutaway.errors import FormatError, ModelNotFoundError, ParameterError
from cutaway.ops.backends import open_backend
from cutaway.planner import outline_model
from cutaway.planner.calibration import Calibration, Sample, identity_of
from cutaway.planner.shapes import SHAPES
from cutaway.xray.plan import Ask, Here, Plan, make_plan
from cutaway.xray.plan_json import plan_json, type_row_json, type_rows
from cutaway.xray.planned_model import PlannedModel, planned_model
from tiny_llama import write_folder

BACKEND = open_backend("native", threads=2)


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "cache"))


@pytest.fixture
def llama() -> Iterator[PlannedModel]:
    with planned_model("llama-3-8b") as found:
        yield found


def here(available: int | None, *calibrations: Calibration) -> Here:
    return Here(BACKEND, available, 50_000_000, time.time(), calibrations)


def calibration(**changes: object) -> Calibration:
    """A machine that reads 10 GB/s."""
    samples = [Sample(True, 1, n, (n * 1.0,)) for n in (128, 2048, 4096)]
    samples += [Sample(False, r, c, (50.0 + r + 1e-3 * r * c,)) for r in (1, 8) for c in (128, 4096)]
    about = BACKEND.describe()
    made = Calibration(
        "other", "0" * 64, about.instruction_set, about.threads.count, "bf16", "bf16", time.time(), 0.0, tuple(samples),
        0.5e9, 1e9, 1.2e4, 1e5, True,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


# --- sources ----------------------------------------------------------------------------------------------------------
def test_a_config_json_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**SHAPES["llama-3-8b"], "torch_dtype": "bfloat16"}), encoding="utf-8")
    with planned_model(str(path)) as found:
        made = make_plan(found, Ask(4096), here(None))
    assert (found.origin, found.types) == ("config", "BF16")
    assert sum(w.file for w in made.memory.weights) + made.memory.mapped == pytest.approx(16.06e9, rel=0.001)
    assert made.fits is None and made.most_context is None


def test_a_file_goes_before_sizes_and_its_types_are_its_own(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 300)
    with planned_model(str(folder)) as found:
        own = make_plan(found, Ask(32), here(10**9))
    with planned_model(str(folder), mix="Q8_0") as found:
        mixed = make_plan(found, Ask(32), here(10**9))
    with planned_model(str(folder), changes=["layers=1"]) as found:
        assert found.changed and found.spec.layers == 1
    assert own.model.origin == "file" and {w.type for w in own.memory.weights} == {"F32"}
    assert mixed.memory.weight_bytes < own.memory.weight_bytes and own.fits


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("config.json", "{", FormatError), ("config.json", "[]", FormatError),
        ("config.json", None, ModelNotFoundError), ("config.json", "[" * 100_000, FormatError),
    ],
)  # fmt: skip
def test_what_is_no_config(tmp_path: Path, name: str, content: str | None, kind: type[Exception]) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(kind), planned_model(str(path)):
        pass


def test_an_unknown_name() -> None:
    with pytest.raises(ModelNotFoundError), planned_model("gpt-9"):
        pass


# --- what fits --------------------------------------------------------------------------------------------------------
def test_the_most_that_fits_fits_and_one_more_does_not(llama: PlannedModel) -> None:
    made = make_plan(llama, Ask(4096), here(6_000_000_000))
    assert made.fits and made.most_requests and made.most_context
    room = 6_000_000_000 - 50_000_000
    for ask in (Ask(4096, made.most_requests), Ask(made.most_context)):
        assert make_plan(llama, ask, here(None)).memory.total <= room
    more = make_plan(llama, Ask(4096, made.most_requests + 1), here(6_000_000_000))
    assert more.fits is False and more.misses == ("memory",)


def test_each_advice_reaches_what_was_missed(llama: PlannedModel) -> None:
    limit = 6_500_000_000
    made = make_plan(llama, Ask(8192, 4), here(limit))
    assert made.misses == ("memory",) and not made.fits
    whats = [a.what for a in made.advice]
    assert any("context of" in w for w in whats) and any("requests at once" in w for w in whats)
    assert all(a.total is not None and a.total <= limit and a.config for a in made.advice)
    none = make_plan(llama, Ask(8192, 4), here(100_000_000))
    assert none.most_requests == 0 and none.advice == ()


def test_all_together_where_no_single_change_is_enough(llama: PlannedModel) -> None:
    made = make_plan(llama, Ask(8192, 64), here(6_000_000_000))
    assert made.advice and all(a.total is not None and a.total <= 6_000_000_000 for a in made.advice)


# --- times ------------------------------------------------------------------------------------------------------------
def test_times_are_unknown_without_a_calibration(llama: PlannedModel) -> None:
    made = make_plan(llama, Ask(4096, tpot=1.0, ttft=1.0), here(None))
    assert (made.predictor, made.first, made.each, made.misses) == (None, None, None, ())
    assert plan_json(made, BACKEND)["latency"] is None


def test_times_from_another_models_rates(llama: PlannedModel) -> None:
    made = make_plan(llama, Ask(4096, 8, tpot=100.0), here(None, calibration()))
    assert made.predictor is not None and "other" in made.predictor.basis and not made.predictor.sound
    alone = make_plan(llama, Ask(128), here(None, calibration())).each
    assert alone is not None
    outline = outline_model(llama.file, llama.spec, BACKEND)
    read = work_of(outline, "bf16", "bf16").step_bytes
    assert read == pytest.approx(sum(w.packed for w in outline.weights), rel=0.02)  # each weight once
    assert alone.middle == pytest.approx(51 * read / 0.5e9, rel=0.1)
    assert made.misses == ("tpot",)


def test_times_of_the_model_itself_and_of_these_types_only(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 300)
    own = calibration(identity=identity_of(folder), integer=False)
    with planned_model(str(folder)) as found:
        made = make_plan(found, Ask(32), here(None, own))
        assert made.predictor is not None and made.predictor.sound and "calibrated" in made.predictor.basis
        other = make_plan(found, Ask(32, value_type="int8"), here(None, own))
        assert other.predictor is None or not other.predictor.sound
        more = make_plan(found, Ask(32), here(None, replace(own, threads=own.threads + 1)))
        assert more.predictor is None


def test_advice_on_times_says_the_time_that_is_then_expected(llama: PlannedModel) -> None:
    made = make_plan(llama, Ask(4096, 8, ttft=20_000.0, tpot=600.0), here(None, calibration()))
    assert set(made.misses) == {"ttft", "tpot"} and made.advice
    for advice in made.advice:
        assert advice.time is not None
        assert advice.time.high <= (20_000.0 if "prompts" in advice.what else 600.0)


# --- the record -------------------------------------------------------------------------------------------------------
def test_the_record_adds_up(llama: PlannedModel) -> None:
    made: Plan = make_plan(llama, Ask(4096, 2), here(10**10, calibration()))
    record = json.loads(json.dumps(plan_json(made, BACKEND), allow_nan=False))
    assert sum(row["bytes"] for row in record["ledger"]) + record["process_bytes"] == record["total"]
    assert record["kv_request_bytes"] == pytest.approx(4096 * record["kv_token_bytes"], rel=1e-6)
    assert [c["context"] for c in record["contexts"]] == [4096]
    assert all(0 < c["attention_share"] < 1 for c in record["contexts"])


def test_a_row_for_each_type_of_weights(llama: PlannedModel) -> None:
    rows = {r.types: r for r in type_rows(llama, Ask(4096), here(None, calibration()))}
    assert rows["BF16"].each is None and rows["Q4_K_M"].each is not None  # floats are multiplied otherwise
    assert rows["Q4_K_M"].file == pytest.approx(4.913e9, rel=0.001) and rows["Q4_K_M"].smallest_device == "6 GB"
    assert rows["Q8_0"].weights > rows["Q4_K_M"].weights
    assert type_row_json(rows["Q8_0"])["tpot_ms"]["low"] > type_row_json(rows["Q4_K_M"])["tpot_ms"]["low"]


def test_asks_that_are_none() -> None:
    for wrong in ({"context": 0}, {"requests": 0}, {"ttft": 0.0}, {"tpot": float("nan")}):
        with pytest.raises(ParameterError):
            Ask(**wrong)  # type: ignore[arg-type]
