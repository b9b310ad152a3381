"""Stages over the whole row of logits, in place; each touches only the tokens concerned.

An edit is `edit(row, history)`. `row` float32 [vocab] is the sampler's own copy, and results are rounded to float32
after each stage. -inf bans a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling.params import SamplingParams
from cutaway.sampling.stages.custom_stage import Stage
from cutaway.sampling.stages.history import History

Row = NDArray[np.float32]
Ids = NDArray[np.int64]
Edit = Callable[[Row, History], None]

BANNED = np.float32(-np.inf)
BIAS_BANS = -100.0


class FormState(Protocol):
    """The two stages of the output's form; see constraint.py."""

    def budget(self, row: Row, history: History) -> None: ...

    def constrain(self, row: Row, history: History) -> None: ...


class Encoder(Protocol):
    """The tokenizer interface that bad words and DRY need."""

    def token_bytes(self, id: int) -> bytes: ...

    def encode_part(self, text: str) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Needs:
    """What a stage may need besides the parameters. end_ids: the model's end tokens. form: the state of the output's
    form, if it has one."""

    end_ids: frozenset[int] = frozenset()
    tokenizer: Encoder | None = None
    form: FormState | None = None


def _ids(tokens: Iterable[int]) -> Ids:
    return np.array(sorted({int(token) for token in tokens}), np.int64)


def stage_logit_bias(params: SamplingParams, needs: Needs) -> Edit | None:
    if not params.logit_bias:
        return None
    ids = np.array([int(token) for token in params.logit_bias], np.int64)
    values = np.array([float(bias) for bias in params.logit_bias.values()], np.float64)
    values[values <= BIAS_BANS] = -np.inf

    def edit(row: Row, history: History) -> None:
        row[ids] = row[ids] + values

    return edit


def stage_allowed_tokens(params: SamplingParams, needs: Needs) -> Edit | None:
    if params.allowed_tokens is None:
        return None
    ids = _ids(params.allowed_tokens)

    def edit(row: Row, history: History) -> None:
        kept = row[ids]
        row.fill(BANNED)
        row[ids] = kept

    return edit


def stage_banned_tokens(params: SamplingParams, needs: Needs) -> Edit | None:
    if not len(params.banned_tokens):
        return None
    ids = _ids(params.banned_tokens)

    def edit(row: Row, history: History) -> None:
        row[ids] = BANNED

    return edit


def bad_sequences(words: Sequence[str | Sequence[int]], tokenizer: Encoder | None) -> list[tuple[int, ...]]:
    """Token sequences of `words`: a text is encoded with and without a leading space."""
    found: dict[tuple[int, ...], None] = {}
    for word in words:
        if not isinstance(word, str):
            found[tuple(int(token) for token in word)] = None
            continue
        if tokenizer is None:
            raise ParameterError(f"bad_words holds the text {word!r}; without a tokenizer it must hold token ids")
        bare = word.lstrip(" ") or word
        for text in (bare, " " + bare):
            found[tuple(tokenizer.encode_part(text))] = None
    return [sequence for sequence in found if sequence]


def stage_bad_words(params: SamplingParams, needs: Needs) -> Edit | None:
    sequences = bad_sequences(params.bad_words, needs.tokenizer)
    if not sequences:
        return None
    single = _ids(sequence[0] for sequence in sequences if len(sequence) == 1)
    longer: dict[int, list[tuple[tuple[int, ...], int]]] = {}  # by the token before the last
    for sequence in sequences:
        if len(sequence) > 1:
            longer.setdefault(sequence[-2], []).append((sequence[:-1], sequence[-1]))

    def edit(row: Row, history: History) -> None:
        row[single] = BANNED
        for start, last in longer.get(history.tokens[-1], ()) if history.tokens else ():
            if history.last(len(start)) == start:
                row[last] = BANNED

    return edit


def stage_min_tokens(params: SamplingParams, needs: Needs) -> Edit | None:
    ends = _ids(params.stop_token_ids) if params.ignore_eos else _ids(needs.end_ids.union(params.stop_token_ids))
    if not params.min_tokens or not len(ends):
        return None

    def edit(row: Row, history: History) -> None:
        if len(history.generated) < params.min_tokens:
            row[ends[ends < len(row)]] = BANNED

    return edit


def stage_repetition_penalty(params: SamplingParams, needs: Needs) -> Edit | None:
    if params.repetition_penalty == 1:
        return None
    by = float(params.repetition_penalty)

    def edit(row: Row, history: History) -> None:
        ids = history.seen.ids
        values = row[ids].astype(np.float64)
        row[ids] = np.where(values > 0, values / by, values * by)

    return edit


def stage_presence_penalty(params: SamplingParams, needs: Needs) -> Edit | None:
    penalty = params.presence_penalty
    if penalty == 0:
        return None

    def edit(row: Row, history: History) -> None:
        ids = history.made.ids
        row[ids] = row[ids] - np.float64(penalty)

    return edit


def stage_frequency_penalty(params: SamplingParams, needs: Needs) -> Edit | None:
    penalty = params.frequency_penalty
    if penalty == 0:
        return None

    def edit(row: Row, history: History) -> None:
        ids = history.made.ids
        row[ids] = row[ids] - float(penalty) * history.made.counts

    return edit


def stage_no_repeat_ngram(params: SamplingParams, needs: Needs) -> Edit | None:
    ngram = params.no_repeat_ngram
    if not ngram:
        return None

    def edit(row: Row, history: History) -> None:
        if (follows := history.follows.get(history.last(ngram - 1))) is not None:
            row[list(follows)] = BANNED

    return edit


def _name(stage: Stage) -> str:
    return str(getattr(stage, "__name__", type(stage).__name__))


def stage_stages(params: SamplingParams, needs: Needs) -> list[tuple[str, Edit]]:
    """The custom stages, under their own names."""
    return [(_name(stage), _own(stage)) for stage in params.stages]


def stage_top_n_sigma(params: SamplingParams, needs: Needs) -> Edit | None:
    """Over the tokens that are not banned; population deviation, as Tang et al. 2024 ("Top-n-sigma") have it. The
    temperature, which comes later, would scale both sides alike."""
    deviations = float(params.top_n_sigma)
    if deviations <= 0:
        return None

    def edit(row: Row, history: History) -> None:
        finite = row[np.isfinite(row)].astype(np.float64)
        if len(finite):
            row[row < finite.max() - deviations * finite.std()] = BANNED

    return edit


def _own(stage: Stage) -> Edit:
    name = _name(stage)

    def edit(row: Row, history: History) -> None:
        try:
            result = stage(row, history.prompt, tuple(history.generated))
        except Exception as error:
            raise EngineError(f"the custom stage {name} failed: {type(error).__name__}: {error}") from error
        if result is None or result is row:
            return
        if np.shape(result) != row.shape:
            raise EngineError(f"the custom stage {name} returned shape {np.shape(result)}; it must return {row.shape}")
        row[:] = result

    return edit
