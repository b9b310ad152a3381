"""The sampler of one choice of a request: a row of logits in, a token out.

Two paths give the same token: the fused one (native: temperature, top_k, top_p, min_p and the draw over as few of the
best tokens as decide it), and the stages one by one, which run for recorders, for typical_p, XTC and mirostat, and for
log-probabilities of the sampled distribution. tests/sampling/test_equality.py checks that they are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cutaway.sampling.logprobs import TokenLogprobs, token_logprobs
from cutaway.sampling.native_rows import UNIT, Row, best_token, checked, draw_token, log_total, odds_of
from cutaway.sampling.params import GREEDY_BELOW, PARAMETERS, STAGES, SamplingParams
from cutaway.sampling.randomness import uniform53
from cutaway.sampling.stages.constraint import form_stage
from cutaway.sampling.stages.find import edits, truncations
from cutaway.sampling.stages.history import History
from cutaway.sampling.stages.ledger import View, Views
from cutaway.sampling.stages.temperature import temperature_at
from cutaway.sampling.stages.truncation import Candidates, Moment, candidates, draw, surprises
from cutaway.text import Tokenizer
from cutaway.trace import NULL, Recorder, StageRecord

FUSED = ("top_k", "top_p", "min_p")
"""The stages over candidates that the fused draw supports."""

UNFUSED = {
    p.name: p.default
    for p in PARAMETERS
    if ":" in (p.stage or "") and p.stage_name in STAGES[STAGES.index("temperature") + 1 :]
    if p.stage_name not in FUSED
}
"""The parameters that enable a stage, and the values that leave it off."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A token and its figures.

    logprob, rank (from 1), top (id, logprob): None and () unless `logprobs` or a recorder requests them; from the
    distribution that `logprobs_mode` selects. before, after: the token's probability in the model's distribution and in
    the sampled one. stages: only for a recorder; the first, `model`, is the model's own distribution.
    """

    token: int
    logprob: float | None = None
    rank: int | None = None
    top: tuple[tuple[int, float], ...] = ()
    stages: tuple[StageRecord, ...] = ()
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """What the stages make of a row whose token is known. drawn: the token that they choose; views: the distribution
    after each stage, the model's own first."""

    drawn: int
    views: tuple[View, ...]


Draw = tuple[float, int, float, float, int]
"""1 / temperature (0: the best token), top_k, top_p, min_p, 53 random bits."""


class Sampler:
    """Chooses the tokens of one choice of a request, and keeps their history.

    seed: the request's, or one that the engine drew. choice: 0 to n - 1. prompt: its token ids. end_ids: the model's
    end tokens. tokenizer: for bad words as texts, DRY, constraints and the reasoning budget. most_surprise: mirostat's
    state, in bits.

    Raises ParameterError if these need a tokenizer and there is none, and for a constraint that cannot be enforced.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        seed: int,
        choice: int = 0,
        prompt: Sequence[int] = (),
        end_ids: frozenset[int] = frozenset(),
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.params = params
        self.seed = seed
        self.choice = choice
        self._tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else None  # except if a test passes fewer
        self._history = History(prompt, ngram=int(params.no_repeat_ngram))
        self._form = form_stage(params, tokenizer, end_ids)
        self._edits = edits(params, end_ids=end_ids, tokenizer=tokenizer, form=self._form)
        self.most_surprise = 2.0 * float(params.mirostat_tau)
        self._processed = params.logprobs is not None and params.logprobs_mode == "processed"
        self._staged_only = self._processed or any(getattr(params, name) != off for name, off in UNFUSED.items())
        moving = params.temperature_end is not None or bool(params.dynamic_temperature_range)
        self._fixed = None if moving else float(params.temperature)
        self._cut = max(0, int(params.top_k)), float(params.top_p), float(params.min_p)
        self._vocab = 0

    @property
    def generated(self) -> tuple[int, ...]:
        """The tokens of the output so far."""
        return tuple(self._history.generated)

    def draw(self) -> Draw | None:
        """The arguments of the fused draw for the next token, or None if more than that draw is needed."""
        if self._edits or self._staged_only or self._fixed is None:
            return None
        if self._fixed < GREEDY_BELOW:
            return 0.0, 0, 1.0, 0.0, 0
        return 1.0 / self._fixed, *self._cut, self._uniform()

    def choose(self, logits: Row, recorder: Recorder = NULL, drawn: int | None = None) -> Choice:
        """The next token. logits: float32 [vocab], not changed. recorder: NULL unless this request is recorded. drawn:
        the result of `draw_together` for this row.

        Raises EngineError if the row contains NaN or +inf or allows no token (the history is then unchanged), and
        ParameterError at the first row if the parameters contain a token id outside the vocabulary.
        """
        raw = self._row(logits)
        surprise = self.most_surprise
        choice = self._chosen(raw, recorder, drawn)
        if self._is_unused(choice.token):  # rare, so it is checked afterwards and drawn again without such tokens
            self.most_surprise = surprise
            choice = self._chosen(raw, recorder, None, masked=True)
        self.accept(choice.token)
        return choice

    def review(self, logits: Row, token: int) -> Review:
        """What `choose` does to the row when a recorder looks, but the next token is `token`, whatever is drawn.

        Raises as `choose`, and EngineError where the form of the output does not let the token come.
        """
        raw, surprise, views = self._row(logits), self.most_surprise, Views()
        drawn, kept = self._staged(self._edited(raw, views), views)
        if self._is_unused(drawn):
            self.most_surprise, views = surprise, Views()
            drawn, kept = self._staged(self._edited(raw, views, masked=True), views)
        if drawn != token:
            self.most_surprise = surprise
            self._learn_surprise(kept, np.flatnonzero(kept.ids == token))
        self.accept(token)
        return Review(drawn, tuple(views.seen))

    def _row(self, logits: Row) -> Row:
        raw = np.ascontiguousarray(logits, np.float32)
        if len(raw) != self._vocab:
            self.params.check_vocab(len(raw))
            self._vocab = len(raw)
        return raw

    def _learn_surprise(self, kept: Candidates, places: Iterable[int]) -> None:
        """places: of the token among `kept`; none where no stage left it."""
        for place in places if self.params.mirostat else ():
            surprise = float(surprises(kept)[place])
            self.most_surprise -= float(self.params.mirostat_eta) * (surprise - float(self.params.mirostat_tau))

    def _is_unused(self, token: int) -> bool:
        """Whether the token only pads the vocabulary or lies beyond it, and so has no text."""
        names = self._tokenizer
        return names is not None and (token >= names.vocab_size or names.kind(token) == "unused")

    def _chosen(self, raw: Row, recorder: Recorder, drawn: int | None, *, masked: bool = False) -> Choice:
        """masked: exclude tokens without text."""
        views = Views() if recorder is not NULL else None
        row = self._edited(raw, views, masked=masked)
        if views is None and not self._staged_only:
            token = self._fused(row) if drawn is None else self._checked(drawn)
            return self._told(raw, token, None)
        token, kept = self._staged(row, views)
        return self._told(raw, token, kept, views)

    def accept(self, token: int) -> None:
        """Add `token` to the output, however it was chosen."""
        self._history.add(int(token))
        if self._form is not None:
            self._form.accept(int(token))

    def _checked(self, result: int, after: str = "") -> int:
        if result < 0:
            checked(result, f"{after}at token {len(self._history.generated)} of the output")
        return result

    def _edited(self, raw: Row, views: Views | None, *, masked: bool = False) -> Row:
        if views is None and not self._edits and not masked:
            return raw
        self._checked(best_token(raw))  # an edit must not hide a NaN
        if views is not None:
            views.add("model", raw)
        row = raw.copy() if self._edits or masked else raw
        for name, edit in self._edits:
            edit(row, self._history)
            if views is not None:
                self._checked(best_token(row), f"after {name} ")
                views.add(name, row)
        if masked and self._tokenizer is not None:
            row[self._tokenizer.unused_ids(len(row))] = -np.inf
            if views is not None:
                views.add("unused_tokens", row)
        return row

    def _temperature(self, row: Row) -> float:
        if self._fixed is not None:
            return self._fixed
        position = len(self._history.generated)
        top = float(row[self._checked(best_token(row))]) if self.params.dynamic_temperature_range else 0.0
        return temperature_at(self.params, position, row, top)

    def _uniform(self) -> int:
        return uniform53(self.seed, self.choice, len(self._history.generated))

    def _fused(self, row: Row) -> int:
        temperature = self._temperature(row)
        if temperature < GREEDY_BELOW:
            return self._checked(best_token(row))
        return self._checked(draw_token(row, 1.0 / temperature, *self._cut, self._uniform()))

    def _staged(self, row: Row, views: Views | None) -> tuple[int, Candidates]:
        best = self._checked(best_token(row))
        top, temperature = float(row[best]), self._temperature(row)
        if temperature < GREEDY_BELOW:
            kept = Candidates(np.array([best], np.int32), np.array([int(UNIT)]), np.zeros(1))
            if views is not None:
                views.keep("greedy", kept.ids, top=top, inverse=1.0)
            return best, kept
        inverse, stages = 1.0 / temperature, truncations(self.params, len(row), self._moment(row, top))
        if views is not None:
            views.add("temperature", row, top, inverse)
        kept = candidates(row, top, inverse, self._count(len(row)))
        for name, stage in stages:
            kept = stage(kept)
            if views is not None:
                views.keep(name, kept.ids, top=top, inverse=inverse)
        place = draw(kept, self._uniform())
        self._learn_surprise(kept, (place,))
        return int(kept.ids[place]), kept

    def _moment(self, row: Row, top: float) -> Moment:
        coin = uniform53(self.seed, self.choice, len(self._history.generated), use=1) / 2**53
        return Moment(coin, self.most_surprise, lambda ids: odds_of(row[ids], top, 1.0))

    def _count(self, vocab: int) -> int:
        k = int(self.params.top_k)
        return vocab if k <= 0 else min(k, vocab)

    def _told(self, raw: Row, token: int, kept: Candidates | None, views: Views | None = None) -> Choice:
        wanted = self.params.logprobs
        if wanted is None and views is None:
            return Choice(token)
        if kept is not None and self._processed:
            told = _processed_logprobs(kept, token, int(wanted or 0))
        else:
            told = token_logprobs(raw, token, int(wanted or 0))
        stages = () if views is None else views.records(token)
        before, after = (stages[0].probability, stages[-1].probability) if stages else (None, None)
        return Choice(token, told.logprob, told.rank, told.top, stages, before, after)


class Drawing(Protocol):
    """Rows of logits from which tokens can be drawn in place: by (row, *Draw), a token or a negative error number."""

    def draw(self, draws: Sequence[tuple[int, float, int, float, float, int]], /) -> list[int]: ...


def draw_together(rows: Drawing, samplers: Mapping[int, Sampler]) -> dict[int, int]:
    """Draw from several rows in one call. Returns the argument `drawn` of each sampler's `choose`, by row.

    samplers: by row; those that need more than a draw are left out.
    """
    draws = [(row, *draw) for row, sampler in samplers.items() if (draw := sampler.draw()) is not None]
    if len(draws) < 2:
        return {}
    return {draw[0]: result for draw, result in zip(draws, rows.draw(draws), strict=True)}


def _processed_logprobs(kept: Candidates, token: int, top: int) -> TokenLogprobs:
    normaliser = log_total(kept.total)
    place = int(np.flatnonzero(kept.ids == token)[0])
    best = tuple((int(kept.ids[i]), float(kept.scaled[i]) - normaliser) for i in range(min(top, len(kept.ids))))
    return TokenLogprobs(float(kept.scaled[place]) - normaliser, place + 1, best)
