"""The stages that parameters enable, found through the table: "module:name" is `stage_name` of that module.

A stage before `temperature` is made by `stage_NAME(params, needs)`: an edit of the row (logit_edits.py), None if it is
off, or several edits with names of their own. A stage after it is made for each token by `stage_NAME(params, vocab,
moment)`: a cut of the candidates (truncation.py), or None.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from cutaway.sampling.params import PARAMETERS, STAGES, SamplingParams
from cutaway.sampling.stages.logit_edits import Edit, Encoder, FormState, Needs
from cutaway.sampling.stages.truncation import Cut, Moment

Maker = Callable[..., Any]
AT_EASE = Moment()


@cache
def makers() -> tuple[tuple[tuple[str, Maker], ...], tuple[tuple[str, Maker], ...]]:
    """The stages over the row and those over candidates, by name, in the order of STAGES."""
    modules = {}
    for parameter in PARAMETERS:
        module, _, name = (parameter.stage or "").rpartition(":")
        if module:
            modules[name] = import_module(f"cutaway.sampling.stages.{module}")
    at = STAGES.index("temperature")
    made = [(name, getattr(modules[name], f"stage_{name}")) for name in STAGES if name != "temperature"]
    return tuple(made[:at]), tuple(made[at:])


def edits(
    params: SamplingParams, *, end_ids: frozenset[int], tokenizer: Encoder | None, form: FormState | None = None
) -> tuple[tuple[str, Edit], ...]:
    """The edits that `params` enable, by name, in order. Raises ParameterError for bad words or DRY without a
    tokenizer."""
    needs = Needs(end_ids, tokenizer, form)
    found: list[tuple[str, Edit]] = []
    for name, make in makers()[0]:
        made = make(params, needs)
        if made is not None:
            found += made if isinstance(made, list) else [(name, made)]
    return tuple(found)


def truncations(params: SamplingParams, vocab: int, moment: Moment = AT_EASE) -> tuple[tuple[str, Cut], ...]:
    """The cuts that `params` enable at one token, by name, in order. vocab: tokens of the row."""
    made = ((name, make(params, vocab, moment)) for name, make in makers()[1])
    return tuple((name, cut) for name, cut in made if cut is not None)
