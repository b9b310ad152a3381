"""Prompts for a load test, drawn with a seed: lengths as in logs of real conversations, with meaningless words.

ShareGPT's logs have log-normal lengths: most prompts are short and a few are very long. The rounded figures below are
of that kind: half of the prompts under 90 tokens and one in ten over 400, half of the answers under 130.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from cutaway.errors import ParameterError

MEDIAN_PROMPT, SPREAD_PROMPT = 90, 1.2
MEDIAN_ANSWER, SPREAD_ANSWER = 130, 0.9
# Common words, each one token in most vocabularies.
WORDS = (
    "the of and to in is that for it with as was on are by this be from at or an have not which you can time new "
    "people world water house work part place year day hand city light story small number point group problem fact "
    "little large good high first last long great other old right big early young important few public same able"
)


@dataclass(frozen=True, slots=True)
class Mix:
    """The workload. prompt_tokens, answer_tokens: None for the distribution. longest: maximum tokens of a prompt and
    its answer. shared: the share of requests that begin with the same prefix_tokens tokens."""

    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    longest: int = 2048
    shared: float = 0.0
    prefix_tokens: int = 512

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "answer_tokens", "longest", "prefix_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ParameterError(f"{name} is {value}; it must be at least 1")
        if not 0 <= self.shared <= 1:
            raise ParameterError(f"shared is {self.shared}; it must be 0 to 1")


@dataclass(frozen=True, slots=True)
class Question:
    """One request: about `tokens` tokens of text, and the number of tokens of the answer."""

    text: str
    tokens: int
    answer_tokens: int


def questions(mix: Mix, count: int, seed: int) -> list[Question]:
    """The same for the same seed; a longer list begins with the shorter one."""
    prefix = _text(random.Random(f"{seed} prefix"), mix.prefix_tokens)
    made = []
    for i in range(count):
        draw = random.Random(f"{seed} {i}")
        answer = _length(draw, mix.answer_tokens, MEDIAN_ANSWER, SPREAD_ANSWER, mix.longest // 2)
        prompt = _length(draw, mix.prompt_tokens, MEDIAN_PROMPT, SPREAD_PROMPT, mix.longest - answer)
        begins = draw.random() < mix.shared
        text = _text(draw, prompt)
        made.append(Question(f"{prefix} {text}" if begins else text, prompt + begins * mix.prefix_tokens, answer))
    return made


def _length(draw: random.Random, fixed: int | None, middle: int, spread: float, most: int) -> int:
    drawn = round(draw.lognormvariate(math.log(middle), spread))
    return fixed if fixed is not None else max(4, min(drawn, most))


def _text(draw: random.Random, tokens: int) -> str:
    return " ".join(draw.choices(WORDS.split(), k=tokens))
