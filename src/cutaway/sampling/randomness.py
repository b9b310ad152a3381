"""Random numbers without a state: each is a function of (seed, choice, position), the same on every machine.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011), in integers. The key
is the seed (64 bits, low word first); the counter is (position low, position high, choice, use). The draw is the first
output word and the upper 21 bits of the second.
"""

from __future__ import annotations

import os

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Ten rounds over four 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right & _WORD, (left >> 32) ^ c3 ^ k1, left & _WORD
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0, c1, c2, c3


def uniform53(seed: int, choice: int, position: int, use: int = 0) -> int:
    """53 random bits: this over 2^53 is uniform in [0, 1). A negative seed stands for seed + 2^64. use: 0 for the draw
    of the token, 1 for XTC's coin."""
    words = philox((position & _WORD, position >> 32, choice, use), (seed & _WORD, (seed >> 32) & _WORD))
    return words[0] << 21 | words[1] >> 11


def draw_seed() -> int:
    """A seed for a request that names none: 53 bits from the system, so that it survives JSON. Tell it to the user."""
    return int.from_bytes(os.urandom(8), "little") >> 11
