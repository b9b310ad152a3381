"""The table of parameters and what is made from it: a new stage costs one file and one entry."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.errors import ParameterError
from cutaway.sampling import PARAMETERS, SamplingParams
from cutaway.sampling.parameter_docs import PAGES, page, rows

DOCS = Path(__file__).resolve().parents[2] / "docs"
SOURCE = Path(cutaway.__file__).parent

STAGE = """
import numpy as np

def stage_even_only(params, needs):
    if params.even_only == 0:
        return None

    def edit(row, history):
        row[1::2] -= np.float32(params.even_only)

    return edit
"""
ENTRY = """    even_only: float = number(0.0, 0, 50, stage="even_only:even_only", help="Subtract from odd token ids.")
"""
USE = """
import json, sys, numpy
from cutaway.config import parse_config, sampling_settings
from cutaway.sampling import STAGES, Sampler, SamplingParams
from cutaway.sampling.parameter_docs import rows
from cutaway.server.api.schemas import Chat

row = numpy.zeros(8, numpy.float32); row[3] = 1
print(json.dumps({
    "stages": STAGES,
    "plain": Sampler(SamplingParams(temperature=0), seed=1).choose(row).token,
    "even": Sampler(SamplingParams(temperature=0, even_only=9), seed=1).choose(row).token,
    "config": sampling_settings(parse_config("[sampling]\\neven_only = 2.5")),
    "schema": Chat.model_json_schema()["properties"]["even_only"],
    "page": rows(),
}))
"""


def test_a_new_stage_is_one_file_and_one_entry(tmp_path: Path) -> None:
    """A copy of the source with a stage more: the sampler, the help, a config, requests and the page all have it."""
    copy = tmp_path / "cutaway"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "sampling" / "stages" / "even_only.py").write_text(STAGE, "utf-8")
    table = copy / "sampling" / "params.py"
    text = table.read_text("utf-8")
    place = text.index("    dry_multiplier: float = number(")
    table.write_text(text[:place] + ENTRY + text[place:], "utf-8")

    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["stages"].index("even_only") == found["stages"].index("dry") - 1
    assert (found["plain"], found["even"]) == (3, 0)
    assert found["config"] == {"even_only": 2.5}
    assert found["schema"]["maximum"] == 50 and "odd token ids" in found["schema"]["description"]
    assert "| `even_only` | number, 0 to 50 | `0` | even_only | `--even-only` | [sampling] |" in found["page"]
    help = subprocess.run(
        [sys.executable, "-m", "cutaway", "run", "--help"], env=environment, capture_output=True, text=True, check=True
    )
    assert "--even-only <float>" in help.stdout and "Subtract from odd token ids." in help.stdout


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_made_from_the_table(name: str) -> None:
    text = (DOCS / name).read_text("utf-8")
    assert page(text, translated="zh" in name) == text, "make it again: python -m cutaway.sampling.parameter_docs docs"
    assert text.count("\n| `") == len(PARAMETERS)


def test_what_parameters_do_is_told_in_chinese_too() -> None:
    english = [line.rpartition(" | ")[2] for line in rows().splitlines()]
    chinese = [line.rpartition(" | ")[2] for line in (DOCS / PAGES[1]).read_text("utf-8").splitlines() if "| `" in line]
    assert not set(english) & set(chinese)


def test_every_entry_is_whole() -> None:
    assert [p.name for p in PARAMETERS] == [field.name for field in dataclasses.fields(SamplingParams)]
    for p in PARAMETERS:
        assert p.help.endswith(".") and p.help[0].isupper(), p.name
        assert p.range and p.panel
        if p.kind in ("number", "integer"):
            assert p.low < p.high, p.name
    names = [name for p in PARAMETERS for name in (p.name, *(alias.name for alias in p.aliases))]
    flags = [flag for p in PARAMETERS if p.cli for option in p.options for flag in option.split("/")]
    assert len(set(names)) == len(names) and len(set(flags)) == len(flags)


@pytest.mark.parametrize("p", [p for p in PARAMETERS if p.kind in ("number", "integer")], ids=lambda p: str(p.name))
def test_the_range_of_each_number_is_kept(p: object) -> None:
    for name, low, high, above in [(p.name, p.low, p.high, p.above)]:  # type: ignore[attr-defined]
        step = 1 if isinstance(low, int) and isinstance(high, int) else 1e-3
        for value in (high + max(step, high * 1e-6), low if above else low - max(step, abs(low) * 1e-6)):
            whole = type(low)(value) if isinstance(low, int) and p.kind == "integer" else value  # type: ignore[attr-defined]
            with pytest.raises(ParameterError, match=name):
                SamplingParams(**{name: whole})
