"""What a value is worth after being stored as int8, bfloat16 or float8: rules that every backend keeps."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from cutaway.ops.protocol import F32

ACTIVATION_GROUP = 32  # inputs that share one activation scale


def _identity(x: F32) -> F32:
    return x


def _inverse(top: F32, limit: float) -> F32:
    """limit / top in float32; 0 where that is not finite: a row as good as zero (top under 1.4e-36), or with a NaN."""
    inverse = limit / top
    return np.where(np.isfinite(inverse), inverse, np.float32(0))


def round_groups(x: F32, group: int) -> F32:
    """int8 codes times their scale, per run of `group` values of the last axis: what an int8 activation is worth.

    scale = max|x| / 127; code = x * (127 / max|x|), rounded half to even, kept within +-127; all float32. A NaN spreads
    to its whole group.
    """
    runs = x.reshape(*x.shape[:-1], -1, group)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        top = np.abs(runs).max(-1, keepdims=True)
        codes = np.clip(np.rint(runs * _inverse(top, 127)), -127, 127)
        return np.asarray(codes * (top / 127)).reshape(x.shape)


def round_int8(x: F32) -> F32:
    """int8 with one scale per row of the last axis."""
    return round_groups(x, x.shape[-1])


def round_bf16(x: F32) -> F32:
    """Nearest bfloat16, ties to even."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def round_fp8(x: F32) -> F32:
    """float8 e4m3 (largest value 448) with one scale per row of the last axis: max|x| / 448."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        top = np.abs(x).max(-1, keepdims=True)
        codes = np.clip(x * _inverse(top, 448), -448, 448).astype(ml_dtypes.float8_e4m3fn)
        return np.asarray(codes.astype(np.float32) * (top / 448))


ROUND: dict[str, Callable[[F32], F32]] = {"f32": _identity, "bf16": round_bf16, "int8": round_int8, "fp8": round_fp8}
