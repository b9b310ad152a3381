from __future__ import annotations

import numpy as np
import pytest

from cutaway.bench import Limits, Meter, Settings, Subject
from cutaway.bench.limits import ARITHMETICS, middle
from cutaway.bench.synthetic import Shape, synthetic_file
from cutaway.native import _native
from cutaway.ops.native.backend import NativeBackend

SETS = ("amx", "avx512", "avxvnni", "avx2", "plain")


def runs(name: str) -> bool:
    try:
        return _native.instruction_set(name) == name
    except ValueError:
        return False


@pytest.mark.parametrize("name", [s for s in SETS if runs(s)])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_set_has_limits(name: str, threads: int) -> None:
    team = _native.Team(threads)
    buffer = np.ones(1 << 20, np.uint8)
    assert _native.read_limit(team, name, buffer) > 1e6
    rates = {kind: _native.multiply_limit(team, name, kind, 10) for kind in ARITHMETICS}
    assert rates["int8"] > 0 and rates["f32"] > 0 and rates["bf16"] >= 0


@pytest.mark.parametrize("size", [1, 63, 64, 65, 255, (1 << 18) - 1, (1 << 18) + 1])
def test_reading_stays_inside_the_buffer(size: int) -> None:
    """The last bytes of a mapping: reading beyond them would end the process."""
    import mmap

    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    area = np.frombuffer(mmap.mmap(-1, pages * mmap.PAGESIZE), np.uint8)
    for name in filter(runs, SETS):
        assert _native.read_limit(_native.Team(1), name, area[-size:]) > 0


@pytest.mark.skipif(not runs("amx"), reason="no matrix unit")
def test_the_matrix_unit_is_left_as_it_was() -> None:
    """Steps before and after measuring give the same bits, in the same threads."""
    shape = Shape("llama", 1, 256, 4, 2, 64, 512, 320, 1e4, tied=True)
    settings = Settings(context=64, threads=2, instruction_set="amx")
    subject = Subject.load("tiny", synthetic_file("tiny", shape, "Q4_0"), settings)
    (step,) = subject.prompt(64)
    before = subject.run(step).values.copy()
    Meter(subject.backend, 1).once()
    assert np.array_equal(before, subject.run(step).values)


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ValueError, match="does not run"):
        _native.read_limit(_native.Team(1), "neon9", np.ones(64, np.uint8))


def test_a_meter_takes_all_limits() -> None:
    limits = Meter(NativeBackend(threads=1, max_tokens=8), 1).once()
    assert limits.bandwidth > 1e6 and limits.int8 > 0 and limits.rate("bf16") >= limits.f32 > 0


def test_the_middle_of_limits() -> None:
    assert middle([Limits(1, 5, 0, 3), Limits(3, 1, 0, 9), Limits(2, 2, 0, 4)]) == Limits(2, 2, 0, 4)
