from __future__ import annotations

import math

import pytest

from cutaway.sampling import draw_seed
from cutaway.sampling.randomness import philox, uniform53

# Known answers of Philox4x32-10 published with Random123 (kat_vectors): counter, key, output.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], output: tuple[int, int, int, int]
) -> None:
    assert tuple(philox(counter, key)) == output


def test_each_argument_counts() -> None:
    base = uniform53(1, 2, 3)
    assert base == uniform53(1, 2, 3)
    others = {
        uniform53(0, 2, 3),
        uniform53(1 + 2**40, 2, 3),
        uniform53(1, 0, 3),
        uniform53(1, 2, 4),
        uniform53(1, 3, 2),
    }
    assert len(others | {base}) == 6
    assert uniform53(-1, 0, 0) == uniform53(2**64 - 1, 0, 0)


def test_uniform() -> None:
    draws = [uniform53(7, 0, position) / 2**53 for position in range(20_000)]
    assert 0 <= min(draws) < 0.001
    assert 0.999 < max(draws) < 1
    assert sum(draws) / len(draws) == pytest.approx(0.5, abs=4 / math.sqrt(12 * len(draws)))
    shares = [sum(i <= 10 * draw < i + 1 for draw in draws) / len(draws) for i in range(10)]
    assert shares == pytest.approx([0.1] * 10, abs=0.01)


def test_draw_seed() -> None:
    seeds = {draw_seed() for _ in range(50)}
    assert len(seeds) == 50
    assert all(0 <= seed < 2**53 for seed in seeds)
