"""An answer on its way from one of its tokens on: what a branch and the leads of alternatives follow."""

from __future__ import annotations

from collections.abc import Hashable

from cutaway.assemble import Engine
from cutaway.sampling import StopChecker
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.token_account import Cost, sampler_at


class Way:
    """The request's prompt, sampler and stops before the token `at` of its answer. key: within which its prefixes are
    found; cost: takes what following it costs."""

    def __init__(
        self, engine: Engine, known: KnownAnswer, at: int, key: Hashable = None, cost: Cost | None = None
    ) -> None:
        self._engine, self._key, self._cost = engine, key, cost
        passage = next(one for one in known.passages() if one.start <= at < one.end)
        self._tokens = [*passage.prompt, *known.answer[:at]]
        self._sampler = sampler_at(engine, known, at, key=key)
        self._stops = _stops_at(engine, known, at)

    def follow(self, token: int | None, length: int) -> tuple[tuple[int, ...], str, str | None]:
        """Up to `length` tokens, the first of them `token` (None: it is drawn, too); their text; why they ended before
        (a StopKind), None: they did not. Raises what `Engine.read` and the stages raise."""
        chosen: list[int] = []
        text, ended = "", None
        while len(chosen) < length and ended is None:
            if len(self._tokens) >= self._engine.context:
                ended = "context"
                break
            if token is not None and not chosen:
                self._sampler.accept(token)
                one = token
            else:
                one = self._draw()
            chosen.append(one)
            self._tokens.append(one)
            shown, stop = self._stops.push(one)
            text += shown
            ended = None if stop is None else stop.kind
        return tuple(chosen), text + self._stops.finish(), ended

    def _draw(self) -> int:
        tokens, sampler = self._tokens, self._sampler
        last = len(tokens) - 1
        with self._engine.read(tokens, last, key=self._key, look=lambda row: sampler.choose(row).token) as rows:
            drawn: int = next(rows)
            if self._cost is not None:
                self._cost.add(rows)
            return drawn


def _stops_at(engine: Engine, known: KnownAnswer, at: int) -> StopChecker:
    """The request's stops after the first tokens of its answer."""
    params, names = known.params, engine.tokenizer
    detokenizer = names.detokenizer(
        shown=params.visible_tokens, after=known.prompt if params.constraint is None else None
    )
    stops = StopChecker(params.replace(time_limit=None), names.end_ids, detokenizer)
    for token in known.answer[:at]:
        stops.push(token)
    return stops
