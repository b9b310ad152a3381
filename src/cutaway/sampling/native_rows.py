"""The native selection over one row, and the meaning of its results (csrc/kernels/select.h has the definitions).

Order: logit descending, id ascending. Odds: exp((logit - top) * inverse temperature) in whole units of 2^-44, so that
sums are exact and every path through the stages gives the same bits. Nothing here relies on the C library's exp or log.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import EngineError
from cutaway.native import _native

Row = NDArray[np.float32]
Ids = NDArray[np.int32]
Odds = NDArray[np.int64]

UNIT = 2.0**44

# Bound at import, so that an extension without them fails there.
best_token = _native.best_token
count_before = _native.count_before
draw_token = _native.draw_token
exp_nonpositive = _native.exp_nonpositive
log_positive = _native.log_positive
measure_row = _native.measure_row
_order_tokens = _native.order_tokens
_odds_of = _native.odds_of

_FAULTS = {
    -1: "logits hold NaN",
    -2: "logits hold +inf",
    -3: "no token is left to choose: every logit is -inf",
}


def checked(result: int, where: str) -> int:
    """The `result` of a native call. Raises EngineError if it is an error number."""
    if result < 0:
        raise EngineError(f"{_FAULTS[result]} {where}", code="logits_invalid")
    return result


def order(row: Row, count: int) -> Ids:
    """The `count` best tokens above -inf (fewer if there are fewer), in order: int32. Raises like `checked`."""
    ids = np.empty(min(count, len(row)), np.int32)
    return ids[: checked(_order_tokens(row, ids), "")]


def odds_of(logits: Row, top: float, inverse: float) -> Odds:
    """The odds of each of `logits` at the temperature 1 / inverse; those of `top` are 2^44."""
    odds = np.empty(len(logits), np.int64)
    _odds_of(np.ascontiguousarray(logits, np.float32), top, inverse, odds)
    return odds


def log_total(total: int) -> float:
    """ln of a sum of odds in units of one."""
    return float(log_positive(total / UNIT))
