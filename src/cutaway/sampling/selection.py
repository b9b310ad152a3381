"""The native selection over one row, and what its results mean (csrc/kernels/select.h has the definitions).

Order: logit descending, id ascending. Weights: exp((logit - top) * inverse temperature) in whole units of 2^-44, so
that sums are exact and any path through the stages comes to the same bits. Nothing here relies on the C library's exp
or log.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import EngineError
from cutaway.native import _native  # type: ignore[attr-defined]

Row = NDArray[np.float32]
Ids = NDArray[np.int32]
Weights = NDArray[np.int64]

UNIT = 2.0**44

# Bound at import, so that an extension without them fails there.
best_token = _native.best_token
count_before = _native.count_before
draw_token = _native.draw_token
exp_nonpositive = _native.exp_nonpositive
log_positive = _native.log_positive
measure_row = _native.measure_row
total_weight = _native.total_weight
_order_tokens = _native.order_tokens
_weigh_logits = _native.weigh_logits

_FAULTS = {
    -1: "logits hold NaN",
    -2: "logits hold +inf",
    -3: "no token is left to choose: every logit is -inf",
}


def checked(result: int, where: str) -> int:
    """`result` of a native call, or EngineError where it names a fault."""
    if result < 0:
        raise EngineError(f"{_FAULTS[result]} {where}", code="logits_invalid")
    return result


def order(row: Row, count: int) -> Ids:
    """The `count` best tokens above -inf (fewer where there are fewer), in order: int32. Raises as `checked`."""
    ids = np.empty(min(count, len(row)), np.int32)
    return ids[: checked(_order_tokens(row, ids), "")] if len(ids) else ids


def weigh(logits: Row, top: float, inverse: float) -> Weights:
    """The weight of each of `logits` at 1 / inverse degrees, `top` weighing 2^44."""
    weights = np.empty(len(logits), np.int64)
    _weigh_logits(np.ascontiguousarray(logits, np.float32), top, inverse, weights)
    return weights


def log_total(total: int) -> float:
    """ln of a sum of weights, the unit taken out."""
    return float(log_positive(total / UNIT))
