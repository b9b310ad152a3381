"""The plan of a real model, held against a process that loads it and fills its context."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutaway.ops.process_memory import resident
from cutaway.planner.calibration import read_all
from cutaway.xray.bare_process import bare_process
from cutaway.xray.plan_verify import Check, check_json, verify_plan

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def checks(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Check]:
    types = (("bf16", "bf16"), ("f32", "int8"))
    return list(
        verify_plan(
            str(smollm2_path), contexts=(512, 1_000_000), types=types, requests=(1, 3),  # type: ignore[arg-type]
            threads=2, calibrations=tmp_path_factory.mktemp("none"),
        )
    )  # fmt: skip


def test_bytes_are_exact_by_the_allocator(checks: list[Check]) -> None:
    """A context that the model does not reach is left out."""
    assert [(c.context, c.requests) for c in checks] == [(512, 1), (512, 3)] * 2
    assert all(c.exact for c in checks), checks


def test_the_process_takes_what_was_planned(checks: list[Check]) -> None:
    """Twice the bounds that the command judges by: a busy machine reads prompts in smaller steps."""
    for check in checks:
        assert check.measured is not None and check.mapped is not None
        assert abs(check.measured - check.planned) < 0.1 * check.planned, check
        assert check.within in (True, False)
    assert replace(checks[0], measured=checks[0].planned + 5_000_000).within is False
    assert replace(checks[0], measured=None).within is None


def test_times_are_unknown_without_a_calibration(checks: list[Check]) -> None:
    assert all(c.ttft is None and c.tpot is None for c in checks)
    assert check_json(checks[0])["exact"] is True


def test_a_process_without_weights(smollm2_path: Path) -> None:
    bare, full = bare_process(None), bare_process(smollm2_path)
    assert bare is not None and full is not None and 5_000_000 < bare < full < 200_000_000
    here = resident()
    assert here is not None and here.anonymous > 0


def test_a_calibration_is_kept_and_read(smollm2_path: Path, tmp_path: Path) -> None:
    from cutaway.bench.calibrate import calibrate
    from cutaway.planner.calibration import fit, save

    made = calibrate(smollm2_path, "smollm2", threads=2, contexts=(64, 128, 256), requests=(1, 2), rounds=1)
    save(made, tmp_path)
    assert read_all(tmp_path) == [made]
    lines = fit(made)
    assert lines.first(256) > lines.first(64) > 0 and lines.each(2, 128) >= 0.9 * lines.each(1, 128) > 0
    assert made.busy is not None and 0 <= made.busy <= 1 and made.integer
