"""The form of one choice's output: its constraint, and the reasoning before it.

A constraint applies to the answer. With `reasoning` it applies from the closing marker on; until then the output is
free, but may not end. If the prompt has not opened the reasoning, the output begins with the opening marker (if that is
one token) or directly with the answer.
"""

from __future__ import annotations

import codecs
from typing import Literal

import numpy as np

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling.constraints.compile import Matcher, Row, compile_constraint
from cutaway.sampling.params import SamplingParams
from cutaway.sampling.stages.history import History
from cutaway.sampling.stages.logit_edits import Edit, Needs
from cutaway.text import Tokenizer

GRACE = 3
"""Tokens beyond the budget that may complete a character: the rest of four bytes."""


class FormStage:
    """Two stages with one state: `budget` (reasoning_budget) and `constrain` (constraint), and `accept` after a token.

    Raises ParameterError if the constraint cannot be enforced.
    """

    def __init__(self, params: SamplingParams, tokenizer: Tokenizer, end_ids: frozenset[int]) -> None:
        self._ends = np.array(sorted(end_ids), np.int64)
        constraint = params.constraint
        self._matcher = None if constraint is None else compile_constraint(*constraint, tokenizer).matcher()
        self._vocab = tokenizer.vocab_size
        self._spelled = tokenizer.vocabulary.spelled_bytes
        self._state: Literal["before", "inside", "answer"] = "answer"
        self._left = params.reasoning_budget
        self._tail = b""
        if params.reasoning is not None:
            self._state = "inside" if params.reasoning_open else "before"
            self._start, self._end = params.reasoning.start.encode(), params.reasoning.end.encode()
            opening = tokenizer.encode_part(params.reasoning.start, parse_special=True)
            self._opening = opening[0] if len(opening) == 1 else None
            self._closing = tokenizer.encode_part(params.reasoning.end, parse_special=True)
            self._forced = 0  # tokens of the closing marker that were forced

    @property
    def matcher(self) -> Matcher | None:
        return self._matcher

    def budget(self, row: Row, history: History) -> None:
        """Force the closing marker when the reasoning has used its tokens and does not end inside a character."""
        if self._state == "inside" and self._closes():
            row.fill(-np.inf)
            row[self._closing[self._forced]] = 0.0

    def constrain(self, row: Row, history: History) -> None:
        if self._matcher is None:
            return
        if self._state == "inside":
            row[self._ends[self._ends < len(row)]] = -np.inf
            row[self._vocab :] = -np.inf
            return
        opening = self._opening if self._state == "before" else None
        kept = None if opening is None else row[opening]
        self._matcher.restrict(row)
        if opening is not None and kept is not None:
            row[opening] = kept

    def accept(self, token: int) -> None:
        """Accept the next token of the output."""
        if self._state == "before":
            self._begin(token)
        elif self._state == "inside":
            self._reason(token)
        elif self._matcher is not None:
            self._matcher.accept(token)

    def _begin(self, token: int) -> None:
        self._tail += self._spelled(token)
        begun = self._tail.lstrip()
        if begun.startswith(self._start) and (self._matcher is None or token == self._opening):
            self._state, self._tail = "inside", begun[len(self._start) :]
        elif self._matcher is not None:
            self._state = "answer"
            self._matcher.accept(token)
        elif not self._start.startswith(begun):
            self._state = "answer"

    def _reason(self, token: int) -> None:
        if self._left is not None:
            self._forced += self._closes()
            self._left -= 1
        text = self._tail + self._spelled(token)
        found = text.find(self._end)
        if found < 0:
            self._tail = text[-len(self._end) :]
            return
        self._state = "answer"
        if self._matcher is not None and text[found + len(self._end) :].strip():
            raise EngineError(
                "the token that closed the reasoning also began the answer, unconstrained", code="constraint_failed"
            )

    def _closes(self) -> bool:
        """Whether the next token belongs to the closing marker."""
        if self._left is None or self._left > 0:
            return False
        return self._forced > 0 or self._left <= -GRACE or not _cut(self._tail)


def _cut(text: bytes) -> bool:
    """Whether the output ends inside a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text)
    return bool(decoder.getstate()[0])


def form_stage(params: SamplingParams, tokenizer: Tokenizer | None, end_ids: frozenset[int]) -> FormStage | None:
    """The stages that the parameters need, or None. Raises ParameterError without a tokenizer."""
    if params.constraint is None and params.reasoning_budget is None:
        return None
    if tokenizer is None:
        raise ParameterError("a constraint or a reasoning budget needs the tokenizer")
    return FormStage(params, tokenizer, end_ids)


def stage_reasoning_budget(params: SamplingParams, needs: Needs) -> Edit | None:
    return None if needs.form is None or params.reasoning_budget is None else needs.form.budget


def stage_constraint(params: SamplingParams, needs: Needs) -> Edit | None:
    return None if needs.form is None or params.constraint is None else needs.form.constrain
