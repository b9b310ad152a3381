"""The hash of a row of logits: the same for the same bits, another one for any other row."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.sampling import hash_row

M = 2**64


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % M
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % M
    return x ^ (x >> 31)


def plain(row: np.ndarray) -> int:
    """The definition, one word after the other."""
    bits = [int(one) for one in row.view(np.uint32)] + [0] * (len(row) % 2)
    words = [bits[i] | bits[i + 1] << 32 for i in range(0, len(bits), 2)]
    total = sum(word * (mix((i * 0x9E3779B97F4A7C15) % M) | 1) for i, word in enumerate(words, 1)) % M
    return mix(total ^ len(row))


@pytest.mark.parametrize("length", [1, 2, 3, 64, 101, 1000])
def test_it_is_its_definition(length: int) -> None:
    row = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    assert hash_row(row) == plain(row) < M


def test_one_bit_anywhere_is_seen() -> None:
    row = np.random.default_rng(1).standard_normal(97).astype(np.float32)
    for at in range(97):
        for bit in range(32):
            other = row.copy()
            other.view(np.uint32)[at] ^= np.uint32(1 << bit)
            assert hash_row(other) != hash_row(row)


def test_lengths_orders_and_signs_differ() -> None:
    zeros = {hash_row(np.zeros(n, np.float32)) for n in range(1, 200)}
    assert len(zeros) == 199
    row = np.arange(128, dtype=np.float32)
    assert len({hash_row(row), hash_row(row[::-1].copy()), hash_row(-row), hash_row(np.roll(row, 2))}) == 4
    assert hash_row(row[::2]) == hash_row(row[::2].copy())  # bits, wherever they lie


def test_no_two_of_many_rows_that_are_nearly_alike_have_the_same() -> None:
    row = np.random.default_rng(2).standard_normal(2048).astype(np.float32)
    noise = np.random.default_rng(3)
    found = set()
    for _ in range(5000):
        other = row.copy()
        at = noise.integers(0, 2048, 3)
        other.view(np.uint32)[at] += noise.integers(1, 3, 3).astype(np.uint32)
        found.add(hash_row(other))
    assert len(found) == 5000
