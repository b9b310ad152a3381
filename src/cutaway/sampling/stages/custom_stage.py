"""A custom stage, given by a caller of the Python interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Stage = Callable[[NDArray[np.float32], Sequence[int], Sequence[int]], NDArray[np.float32] | None]
"""`stage(logits, prompt, generated)`. The stage may change `logits` (float32 [vocab]) in place (-inf bans a token) or
return a new row of that shape. `prompt` and `generated` are the token ids so far."""
