"""What a backend says of itself before anything is loaded, and that both say it in one way."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from cutaway.errors import ParameterError
from cutaway.ops.backend import Backend, StepLimits
from cutaway.ops.backends import BACKENDS, open_backend
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import KVGroup, KVLayout, Step
from cutaway.ops.thread_count import choose_threads
from tiny import TinyModel, matrix, step


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return open_backend(request.param, threads=1)


def test_it_has_the_name_that_it_is_opened_by(backend: Backend) -> None:
    assert open_backend(backend.name).name == backend.name
    with pytest.raises(ParameterError, match="native, reference"):
        open_backend("gpu")


@pytest.mark.parametrize("type", ["F32", "Q4_K", "Q8_0"])
def test_a_weight_takes_the_bytes_that_were_promised(backend: Backend, type: str) -> None:
    outline = backend.outline()
    real, promised = backend.weight(matrix(type, 48, 256)), outline.weight(matrix(type, 48, 256))
    assert (real.nbytes, real.rows, real.inputs) == (promised.nbytes, promised.rows, promised.inputs)
    assert outline.packed[type].matrices == 1 and outline.packed[type].packed >= real.nbytes


def test_memory_and_limits(backend: Backend) -> None:
    free = backend.free_memory()
    assert free is None or free > 1_000_000
    assert backend.limits == StepLimits(512, 64)
    layout = KVLayout(2, 16, 16, "bf16", "bf16", (KVGroup((0, 2), None, 3), KVGroup((1,), 32, 2)))
    assert len(backend.open_cache(layout)) == 3


def test_the_largest_step_is_the_one_that_the_limits_name() -> None:
    model = TinyModel(NativeBackend(threads=1, max_tokens=5, max_rows=2))
    run = model.ops.record(model.forward)
    assert run(step(5, pages=model.pages, groups=2, rows=[0, 4])).values.shape == (2, model.vocab)
    for too_large in (step(6, pages=model.pages, groups=2, rows=[0]), step(5, pages=model.pages, groups=2)):
        with pytest.raises(ValueError, match="does not fit"):
            run(too_large)


def test_two_recordings_of_one_backend_do_not_meet() -> None:
    """The second model's weights and norms are its own, whatever the first one left behind."""
    backend = NativeBackend(threads=1)
    models = [TinyModel(backend), TinyModel(backend, activation="gelu")]
    first = backend.record(models[0].forward)
    s: Step = step(9, pages=models[0].pages, groups=2)
    alone = first(s).values.copy()
    second = backend.record(models[1].forward)
    other = second(s).values.copy()
    np.testing.assert_array_equal(first(s).values, alone)
    assert not np.array_equal(alone, other)


def test_what_it_computes_with_is_what_it_was_given() -> None:
    about = open_backend("native", threads=1).describe()
    assert (about.threads.count, about.threads.warnings) == (1, [])
    assert about.instruction_set == NativeBackend().instruction_set
    assert open_backend("reference").describe().instruction_set == "reference"


def test_threads_beyond_the_cores_are_left_out_with_a_warning() -> None:
    cores = len(os.sched_getaffinity(0))
    about = open_backend("native", threads=cores + 5).describe()
    assert about.threads == choose_threads(cores + 5)
    assert about.threads.count <= cores and about.threads.warnings


NO_THREAD = """
from pathlib import Path
import numpy as np
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import Matrix

def started():
    return len(list(Path("/proc/self/task").iterdir()))

before = started()
backend = NativeBackend(threads=3)
assert backend.describe().threads.count == 3 and backend.limits.tokens
assert started() == before
backend.weight(Matrix("Q8_0", np.zeros(16 * 68, np.uint8), 16, 64))
assert started() == before + 2, (before, started())
"""


def test_no_thread_starts_before_one_is_needed() -> None:
    """In a process of its own: all models of a process share one pool of threads."""
    done = subprocess.run([sys.executable, "-c", NO_THREAD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
