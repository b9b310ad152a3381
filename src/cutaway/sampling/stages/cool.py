"""Cooling: while an answer goes round in circles (repetition.py) its temperature is halved.

An edit of the row: twice the logits are half the temperature, and exact. It depends on the tokens of the answer alone,
so that a request that is replayed is cooled at the same tokens. Nothing changes at temperature 0.
"""

from __future__ import annotations

from cutaway.sampling.native_rows import Row
from cutaway.sampling.params import SamplingParams
from cutaway.sampling.repetition import LoopDetector
from cutaway.sampling.stages.history import History
from cutaway.sampling.stages.logit_edits import Edit, Needs

COOLING = 0.5


def stage_cool(params: SamplingParams, needs: Needs) -> Edit | None:
    return Cool() if params.on_repetition == "cool" else None


class Cool:
    """The stage, and the tokens that it has seen."""

    def __init__(self) -> None:
        self._loops = LoopDetector()
        self._seen = 0
        self._inside = False

    def __call__(self, row: Row, history: History) -> None:
        for token in history.generated[self._seen :]:
            self._inside = self._loops.push(token)
        self._seen = len(history.generated)
        if self._inside:
            row /= COOLING
