"""A fingerprint of everything that can change the bits of an answer."""

from __future__ import annotations

from typing import Any

import cutaway
from cutaway.ops.backends import open_backend


def instruction_set(backend: str) -> str:
    """The instruction set of this machine's engine."""
    return open_backend(backend).describe().instruction_set


def fingerprint(sha256: str, instruction_set: str, **settings: Any) -> str:
    """A readable fingerprint: `cutaway-0.1.0.8e2071a54b51.avx512.kv_k-bf16.kv_v-bf16`. With equal fingerprints the same
    request and seed give the same bits. settings: those that change bits, without None."""
    said = [f"{name}-{value}" for name, value in sorted(settings.items()) if value is not None]
    return ".".join([f"cutaway-{cutaway.__version__}", sha256[:12], instruction_set, *said])
