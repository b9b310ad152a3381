"""A stage that a caller of the Python interface brings along."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Stage = Callable[[NDArray[np.float32], Sequence[int], Sequence[int]], NDArray[np.float32] | None]
"""`stage(logits, prompt, generated)`. `logits` float32 [vocab] is the stage's to change in place (-inf bans a token);
it may also return a new row of that shape. `prompt` and `generated` are the token ids so far."""
