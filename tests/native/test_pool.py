"""The thread pool under stress: threads that stall, come late, leave and return, and two callers at once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("stress_pool.cpp")
COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.fixture(scope="module")
def stress(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C++ compiler on the path, so the stress program cannot be built")
    program = tmp_path_factory.mktemp("stress") / "stress_pool"
    subprocess.run([COMPILER, "-std=c++20", "-O2", "-pthread", str(SOURCE), "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("threads", [1, 2, 5, 64])
def test_every_value_is_what_one_thread_computes(stress: Path, threads: int) -> None:
    done = subprocess.run([stress, str(threads), "2", "11"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    called, joined, late, sent = (int(word) for word in done.stdout.split() if word.isdigit())
    if threads == 64:
        assert called and joined and late, "helpers come and go, or nothing was tried"
    if threads == 1:
        assert called == joined == late == sent == 0
