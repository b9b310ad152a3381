"""Behaviour that may change only on purpose: today's answers, names and bits, frozen in data/ (see record.py)."""

from __future__ import annotations

import difflib
import json

import pytest

from fences.logits import record_logits
from fences.record import COMMAND, DATA, record_texts
from fences.tiny_models import CASES
from tiny import SETS

TEXTS = ("help.txt", "public.txt", "errors.txt", "config.txt", "openapi.txt", "exchanges.txt", "metrics.txt")
ADVICE = f"If this is meant to change: {COMMAND}, look at the difference, and commit it with the reason."


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return record_texts(tmp_path_factory.mktemp("fences"))


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str, texts: dict[str, str]) -> None:
    frozen = (DATA / name).read_text("utf-8")
    lines = [
        line if len(line) <= 400 else line[:400] + "..."
        for line in difflib.unified_diff(
            frozen.splitlines(), texts[name].splitlines(), "frozen", "now", lineterm="", n=2
        )
    ]
    shown = "\n".join(lines[:80]) + (f"\n... {len(lines) - 80} more lines" if len(lines) > 80 else "")
    assert not lines, f"{name} has changed:\n{shown}\n{ADVICE}"


def test_every_file_of_data_is_compared() -> None:
    assert {path.name for path in DATA.iterdir()} == {*TEXTS, "logits.json"}


@pytest.mark.parametrize("instruction_set", SETS)
def test_logits(instruction_set: str) -> None:
    """Each family over each type of keys and values. All instruction sets have the same bits, where they promise it."""
    frozen = json.loads((DATA / "logits.json").read_text("utf-8"))
    assert frozen.keys() == CASES.keys(), ADVICE
    wrong = [
        f"{name}, keys and values {types}: {_difference(frozen[name][types], rows)}"
        for name, kinds in record_logits(instruction_set).items()
        for types, rows in kinds.items()
        if frozen[name].get(types) != rows
    ]
    assert not wrong, f"{len(wrong)} have changed on {instruction_set}:\n" + "\n".join(wrong[:20]) + f"\n{ADVICE}"


def _difference(frozen: str, now: str) -> str:
    """Where two lines of tokens and hashes part."""
    before, after = frozen.split(), now.split()
    apart = [i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b]
    return f"{len(apart)} of {len(before)} entries, first entry {apart[0] if apart else len(before)}"
