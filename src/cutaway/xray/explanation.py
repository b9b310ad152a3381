"""Why this text: the account of an answer, token by token, why it stopped, and what is odd about it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from cutaway.assemble import Engine
from cutaway.engine.readings import SHARE
from cutaway.errors import EngineError, ParameterError
from cutaway.text import Tokenizer
from cutaway.xray.answer_findings import Seen, answer_findings
from cutaway.xray.answer_text import AnswerText
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.leads import Lead, lead
from cutaway.xray.loop_account import LoopAccount, loop_account
from cutaway.xray.prompt_findings import Finding
from cutaway.xray.stop_account import StopAccount, stop_account
from cutaway.xray.token_account import Cost, TokenAccount, account

BEST, LEAD = 5, 16
"""Defaults: alternatives of each token, and tokens of what each would have led to."""
MOST_BEST, MOST_LEAD = 50, 256


@dataclass(frozen=True, slots=True)
class Asked:
    """What of an answer is to be explained. first, last: of its tokens, from 0 (None: the end). at: one token alone,
    and where its alternatives would have led; tokens: further alternatives there. best, lead: see BEST and LEAD."""

    first: int = 0
    last: int | None = None
    at: int | None = None
    tokens: tuple[int, ...] = ()
    best: int = BEST
    lead: int = LEAD

    def span(self, length: int) -> tuple[int, int]:
        """First and last token. Raises ParameterError where the answer of `length` tokens has not got them."""
        first, last = (self.first, self.last) if self.at is None else (self.at, self.at)
        if not length:
            raise ParameterError("the answer has no token: there is nothing to explain")
        if not 0 <= first < length or (last is not None and not first <= last < length):
            raise ParameterError(f"token {first if last is None or last < length else last} does not exist; the answer "
                                 f"has the tokens 0 to {length - 1}")  # fmt: skip
        if not 0 <= self.best <= MOST_BEST or not 0 <= self.lead <= MOST_LEAD:
            raise ParameterError(f"best must be 0 to {MOST_BEST}, and lead 0 to {MOST_LEAD}")
        return first, length - 1 if last is None else last


@dataclass(frozen=True, slots=True)
class Explanation:
    """known: what was explained. tokens: the accounts, in order; leads: of the one token that was named, its own
    first. cost, milliseconds: what it took, and how long in all."""

    known: KnownAnswer
    text: str
    tokens: tuple[TokenAccount, ...]
    stop: StopAccount
    loop: LoopAccount | None
    findings: tuple[Finding, ...]
    leads: tuple[Lead, ...]
    cost: Cost
    milliseconds: float


def explain(
    engine: Engine, known: KnownAnswer, asked: Asked | None = None, *, key: Hashable = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Explanation:  # fmt: skip
    """Computed behind all requests (engine/readings.py). key: within which its prefixes are found. stopped: called
    before each token; returns whether the reader has left.

    Raises ParameterError for tokens that the answer has not got, ContextExceededError where the engine's context is
    shorter than the request's was, and EngineError.
    """
    asked = asked or Asked()
    began, cost = perf_counter(), Cost()
    first, last = asked.span(len(known.answer))
    told = account(engine, known, key=key, best=asked.best, also=asked.tokens, first=first, last=last, cost=cost)
    tokens = tuple(one for one in told if _goes_on(stopped))
    text = AnswerText.of(known, engine.tokenizer)
    loop = loop_account(known, engine.tokenizer, tokens)
    return Explanation(
        known=known,
        text=text.text,
        tokens=tokens,
        stop=stop_account(known, engine.tokenizer, tokens, text),
        loop=loop,
        findings=answer_findings(Seen(known, engine.tokenizer, tokens, loop, text)),
        leads=tuple(_leads(engine, known, asked, tokens, key, cost, stopped)),
        cost=cost,
        milliseconds=(perf_counter() - began) * 1e3,
    )


def _leads(
    engine: Engine, known: KnownAnswer, asked: Asked, tokens: Sequence[TokenAccount], key: Hashable, cost: Cost,
    stopped: Callable[[], bool],
) -> Iterator[Lead]:  # fmt: skip
    if asked.at is None or not asked.lead:
        return
    (here,) = tokens
    ids = dict.fromkeys([here.token, *(one.token for one in here.alternatives)])
    for id in ids:
        if _goes_on(stopped):
            yield lead(engine, known, asked.at, id, asked.lead, key=key, cost=cost)


def _goes_on(stopped: Callable[[], bool]) -> bool:
    """Always, or EngineError."""
    if stopped():
        raise EngineError("the reader of the explanation has left", code="explaining")
    return True


def token_named(text: str, tokenizer: Tokenizer) -> int:
    """The id of a token named by `#ID` or by a text that is one token. Raises ParameterError."""
    if text.startswith("#") and text[1:].isascii() and text[1:].isdigit():
        id = int(text[1:])
        if id >= tokenizer.vocab_size:
            raise ParameterError(f"there is no token {id}; the vocabulary has 0 to {tokenizer.vocab_size - 1}")
        return id
    ids = tokenizer.encode_part(text)
    if len(ids) != 1:
        shown = ", ".join(f"#{id} {tokenizer.piece(id)!r}" for id in ids[:8])
        raise ParameterError(f"{text!r} is {len(ids)} tokens: {shown}; name one token, by its text or as #ID")
    return ids[0]


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """As a JSON object. Probabilities 0 to 1, entropies, divergences and margins in nats, tokens from 0, ranks from 1;
    null: does not apply, or infinite (`kl`)."""
    known, stop = explanation.known, explanation.stop
    return {
        "record": "explanation",
        "text": explanation.text,
        "prompt_tokens": len(known.prompt),
        "answer_tokens": len(known.answer),
        "seed": known.seed,
        "choice": known.choice,
        "tokens": [asdict(one) for one in explanation.tokens],
        "leads": [asdict(one) for one in explanation.leads],
        "stop": asdict(stop),
        "loop": None if explanation.loop is None else asdict(explanation.loop),
        "findings": [_finding_json(one) for one in explanation.findings],
        "cost": {
            "milliseconds": round(explanation.milliseconds, 3),
            "rows": explanation.cost.rows,
            "tokens_computed": explanation.cost.tokens,
            "engine_milliseconds": round(explanation.cost.milliseconds, 3),
            "looking_milliseconds": round(explanation.cost.looking_ms, 3),
            "others_milliseconds": round(explanation.cost.others_ms, 3),
            "others_share_limit": 1 / SHARE,
        },
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {"code": finding.code, "what": finding.what, "token": finding.token, "tokens": finding.tokens}
