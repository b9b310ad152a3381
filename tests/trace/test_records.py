from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from cutaway.trace import PrefixRecord, Record, StageRecord, StepRecord, TokenRecord, as_json

STAGE = StageRecord(name="top_k", kept=40, entropy=1.5, kl=math.inf, probability=0.25, rank=2)
TOKEN = TokenRecord(
    request="r1",
    choice=0,
    step=7,
    position=3,
    id=42,
    bytes=b"\xe4\xb8\xff\x00",
    before=0.125,
    after=np.float64(0.25),
    rank=2,
    stages=(STAGE,),
    times={"chosen": 1.25, "never": math.nan},
)
STEP = StepRecord(
    step=7, requests=("r1", "r2"), tokens=np.int64(9), rows=2, milliseconds={"forward": 3.5}, pages_held=(4, 0)
)
PREFIX = PrefixRecord("r1", 0, 7, 30, 16, 19, 5, "prompt_changed", (4, 6))


def test_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        STAGE.kept = 1  # type: ignore[misc]


@pytest.mark.parametrize("record", [STAGE, TOKEN, STEP, PREFIX])
def test_json(record: Record) -> None:
    assert json.loads(json.dumps(as_json(record), allow_nan=False)) == as_json(record)


def test_token() -> None:
    made = as_json(TOKEN)
    assert (made["record"], made["bytes"], made["after"]) == ("token", "e4b8ff00", 0.25)
    assert made["stages"] == [{"name": "top_k", "kept": 40, "entropy": 1.5, "kl": None, "probability": 0.25, "rank": 2}]
    assert made["times"] == {"chosen": 1.25, "never": None}


def test_step() -> None:
    assert as_json(STEP) == {
        "record": "step",
        "step": 7,
        "requests": ["r1", "r2"],
        "tokens": 9,
        "rows": 2,
        "milliseconds": {"forward": 3.5},
        "pages_held": [4, 0],
        "drafted": 0,
        "accepted": 0,
    }


def test_prefix() -> None:
    made = as_json(PREFIX)
    assert (made["record"], made["tokens"], made["cached"], made["at"]) == ("prefix", 30, 16, 19)
    assert (made["reason"], made["expected"]) == ("prompt_changed", [4, 6])
    assert as_json(PrefixRecord("r2", 0, 8, 30, 29))["reason"] is None
