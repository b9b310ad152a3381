"""What would have ended a loop: remedies, each tried from where the answer began to repeat itself, with their price.

The first round of the loop stays. From its end on the answer is drawn again, with the same seed and one parameter
changed. The price of a remedy is how far it takes sampling away from the model: the mean KL divergence of the
distribution that was drawn from to the model's own, in nats a token, beside that of the settings as they were.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

from cutaway.assemble import Engine
from cutaway.errors import ParameterError
from cutaway.sampling import SamplingParams
from cutaway.sampling.repetition import LoopDetector
from cutaway.xray.branch import MOST, changed_params
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.loop_account import LoopAccount, loop_account
from cutaway.xray.token_account import account
from cutaway.xray.way import Way

LENGTH = 256
"""Tokens of each remedy at most: more than the alarm needs to rise again."""
TRIED: Mapping[str, Any] = {"repetition_penalty": 1.1, "no_repeat_ngram": 6, "dry_multiplier": 0.8}
"""Beside these: half the temperature, which is what `on_repetition: cool` does."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """name, value: the changed parameter; None: as the request had them. tokens: drawn, from the end of the loop's
    first round on; text: theirs. ended: why it ended before its length (a StopKind); loops_at: the token of these at
    which the alarm rises again; both None: neither. kl: nats a token; None: unknown, a token came in that was out."""

    name: str | None
    value: Any
    tokens: int
    text: str
    ended: str | None
    loops_at: int | None
    kl: float | None


@dataclass(frozen=True, slots=True)
class Remedies:
    """at: the token of the answer from which on they were tried. own: the answer as it was, over as many tokens."""

    loop: LoopAccount
    at: int
    own: Remedy
    tried: tuple[Remedy, ...]
    milliseconds: float


def remedies(engine: Engine, known: KnownAnswer, *, length: int = LENGTH, key: Hashable = None) -> Remedies:
    """Raises ParameterError for an answer without a loop, RecordError where own stages are missing."""
    known.check_stages()
    if not 1 <= length <= MOST:
        raise ParameterError(f"length is {length}; it must be 1 to {MOST}")
    began = perf_counter()
    loop = loop_account(known, engine.tokenizer, ())
    if loop is None:
        raise ParameterError("the answer has no loop, so there is nothing to remedy")
    at = loop.start + loop.period
    own = known.answer[at : at + length]
    left = None if known.stop is None or at + length < len(known.answer) else known.stop.kind
    text = engine.tokenizer.decode(list(own))
    same = Remedy(None, None, len(own), text, left, _loops(known, at, own), _price(engine, known, at, own, key))
    tried = tuple(_tried(engine, known, at, name, value, length, key) for name, value in _values(known.params))
    return Remedies(loop, at, same, tried, (perf_counter() - began) * 1e3)


def _values(params: SamplingParams) -> Iterator[tuple[str, Any]]:
    """Those that change something: a stronger setting of the request's own stays."""
    yield from ((name, value) for name, value in TRIED.items() if getattr(params, name) < value)
    if params.temperature > 0:
        yield "temperature", params.temperature / 2


def _tried(
    engine: Engine, known: KnownAnswer, at: int, name: str, value: Any, length: int, key: Hashable
) -> Remedy:  # fmt: skip
    changed = replace(known, params=changed_params(known.params, (), {name: value}))
    tokens, text, ended = Way(engine, changed, at, key).follow(None, length)
    return Remedy(
        name, value, len(tokens), text, ended, _loops(known, at, tokens), _price(engine, changed, at, tokens, key)
    )


def _loops(known: KnownAnswer, at: int, tokens: tuple[int, ...]) -> int | None:
    """The token at which the alarm rises, counted from `at`."""
    detector = LoopDetector()
    for token in known.answer[:at]:
        detector.push(token)
    return next((place for place, token in enumerate(tokens) if detector.push(token)), None)


def _price(engine: Engine, known: KnownAnswer, at: int, tokens: tuple[int, ...], key: Hashable) -> float | None:
    if not tokens:
        return None
    whole = replace(known, answer=(*known.answer[:at], *tokens), stop=None)
    found = [one.stages[-1].kl_model for one in account(engine, whole, key=key, best=0, first=at) if one.stages]
    if any(kl is None for kl in found):
        return None
    return sum(kl for kl in found if kl is not None) / len(tokens)


def remedies_json(done: Remedies) -> dict[str, Any]:
    """As a JSON object."""
    return {"record": "remedies", **asdict(done)}
