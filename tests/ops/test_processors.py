"""The reference is the same on every processor: whatever vector code NumPy and BLAS choose, each op gives equal bits.

Other processors are imitated by taking features away: NPY_DISABLE_CPU_FEATURES (what of NumPy's code is chosen) and
OPENBLAS_CORETYPE (the order of its sums), which are read when a process starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

TESTS = Path(__file__).resolve().parents[1]
# What this NumPy has code for and this processor can run, from the largest set to the smallest.
DISPATCHED = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
SETTINGS = [
    {"NPY_DISABLE_CPU_FEATURES": " ".join(DISPATCHED[first:]), "OPENBLAS_CORETYPE": core}
    for first in range(len(DISPATCHED))
    for core in ("Prescott", "Nehalem", "Sandybridge")
]


def hashes(**settings: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE")}
    environment |= settings | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from ops.reference_hashes import main; main()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def here() -> list[str]:
    return hashes()


@pytest.mark.skipif(not DISPATCHED, reason="this NumPy has no code for anything above its baseline on this processor")
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: " without ".join(reversed(s.values())))
def test_every_op_of_the_reference(settings: dict[str, str], here: list[str]) -> None:
    assert len(here) >= 20
    apart = [f"{a} here, {b}" for a, b in zip(here, hashes(**settings), strict=True) if a != b]
    assert not apart, "\n".join(apart)
