"""Random numbers without state: each is a function of (seed, choice, position), the same on every machine.

Philox4x32-10 in integers (csrc/kernels/philox.h). The key is the seed (64 bits, low word first); the counter is
(position low, position high, choice, use). The number is the first output word and the upper 21 bits of the second.
"""

from __future__ import annotations

import os

from cutaway.native import _native

_SEED = (1 << 64) - 1

philox = _native.philox  # counter (4 words), key (2 words) -> 4 words
_uniform53 = _native.uniform53


def uniform53(seed: int, choice: int, position: int, use: int = 0) -> int:
    """53 random bits; divided by 2^53 they are uniform in [0, 1). A negative seed stands for seed + 2^64. use: 0 for
    the draw of the token, 1 for XTC."""
    return _uniform53(seed & _SEED, choice, position, use)


def draw_seed() -> int:
    """A seed for a request without one: 53 bits from the system, so that JSON can represent it. It must be reported."""
    return int.from_bytes(os.urandom(8), "little") >> 11
