"""What a caller may ask of the sampler, checked when it is said.

Every field is checked for type and range at construction: a `ParameterError` names the field, the value and the range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import ParameterError
from cutaway.sampling.checks import (
    check_bad_words,
    check_bias,
    check_bool,
    check_form,
    check_int,
    check_number,
    check_patterns,
    check_stages,
    check_stops,
    check_tokens,
)
from cutaway.text.reasoning import ReasoningFormat

Stage = Callable[[NDArray[np.float32], Sequence[int], Sequence[int]], NDArray[np.float32] | None]
"""An own stage: `stage(logits, prompt, generated)`. `logits` float32 [vocab] is the stage's to change in place (-inf
bans a token); it may also return a new row of that shape. `prompt` and `generated` are the token ids so far."""

GREEDY_BELOW = 1e-5
"""A temperature below this is greedy: the best token, lowest id first, no random number."""

Speculation = Literal["ngram", "off"]
LogprobsMode = Literal["raw", "processed"]
ConstraintKind = Literal["json_object", "json_schema", "regex", "choice", "grammar"]
CONSTRAINTS: tuple[ConstraintKind, ...] = ("json_object", "json_schema", "regex", "choice", "grammar")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen and when to stop. The stages run in the order in which `STAGES` (stages.py) names them.

    Choosing
        temperature: 0 to 100; below 1e-5 greedy.
        temperature_end, temperature_length: by length: moves in a straight line from `temperature` at the first token
            to `temperature_end` after `temperature_length` tokens, and stays there. None: off.
        dynamic_temperature_range, dynamic_temperature_exponent: by entropy: between temperature - range (not below 0)
            when the model is sure and temperature + range when every token is as likely (see temperature.py). 0: off.
        top_k: the k best; 0 or -1: off. top_p: the fewest best tokens that hold this share; 1: off; 0: the best one.
        min_p: those at least this times as likely as the best; 0: off.
        typical_p: locally typical sampling (Meister et al. 2022); 1: off.
        repetition_penalty: Keskar et al. 2019 as Hugging Face has it: logits of tokens in the prompt or the output are
            divided by it when positive, multiplied when negative; 1: off.
        presence_penalty, frequency_penalty: OpenAI's: subtracted once, and once per occurrence, for generated tokens.
        no_repeat_ngram: no run of that many tokens (prompt and output) comes twice; 0: off.
        logit_bias: id -> -100 to 100, added; -100 bans. allowed_tokens: only these; None: all. banned_tokens: never.
        bad_words: texts, or token sequences, that must not come out; a text is banned with and without a leading space.
        dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers: DRY, a penalty on going
            on with a repetition (see dry.py); multiplier 0: off; last_n -1: over the whole context.
        stages: own stages, see `Stage`; they run after the penalties and before the constraint and the temperature.
        top_n_sigma: logits within that many standard deviations of the best (Tang et al. 2024); 0: off.
        xtc_probability, xtc_threshold: XTC: with that probability, all tokens at least that likely but the least likely
            of them are left out; probability 0: off.
        mirostat: 2: mirostat 2 (Basu et al. 2021) with mirostat_tau (bits of surprise) and mirostat_eta (how fast it
            learns), over what the stages before it have left; 0: off.
        seed: any integer of 64 bits; None: the engine draws one and tells it. n: how many answers.
    The form of the output; at most one (see grammar.py)
        json_object: any JSON object. json_schema: JSON that the schema accepts (a mapping, a bool, or JSON text).
        regex: text that the expression matches from end to end. choice: one of these texts. grammar: Lark or GBNF.
        reasoning, reasoning_open: the form is kept only after the reasoning ends; open: the prompt has begun it.
        reasoning_budget: tokens of reasoning after which its closing marker is forced, up to three later where a
            character is not complete; None: no limit.
        visible_tokens: control tokens whose names show in the text (markers of tool calls).
    Stopping
        max_tokens: None: until the context ends. min_tokens: no end token, stop token or stop before that many tokens.
        stop: one text or several. stop_regex: patterns of the `regex` library. stop_token_ids. See stop.py.
        include_stop_str: leaves what matched in the text. ignore_eos: goes on after end tokens (they add no text).
        time_limit: seconds.
    Computing (the answer is the same, bit for bit)
        speculate: "ngram": prompt lookup, fewer steps where an answer repeats what was there; drafts where it pays.
            "off": none. None: as the engine was loaded.
    Telling
        logprobs: None: none; n: the chosen token's and those of the n best. prompt_logprobs: the same of the prompt.
        logprobs_mode: `raw`: of the model's own distribution, before any stage; `processed`: of the one drawn from.
    """

    temperature: float = 1.0
    temperature_end: float | None = None
    temperature_length: int = 0
    dynamic_temperature_range: float = 0.0
    dynamic_temperature_exponent: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int = 0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: Sequence[str] = ("\n", ":", '"', "*")
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_tokens: Sequence[int] | None = None
    banned_tokens: Sequence[int] = ()
    bad_words: Sequence[str | Sequence[int]] = ()
    stages: Sequence[Stage] = ()
    json_object: bool = False
    json_schema: Mapping[str, Any] | bool | str | None = None
    regex: str | None = None
    choice: Sequence[str] | None = None
    grammar: str | None = None
    reasoning: ReasoningFormat | None = None
    reasoning_open: bool = False
    reasoning_budget: int | None = None
    visible_tokens: Sequence[int] = ()
    seed: int | None = None
    n: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: str | Sequence[str] = ()
    stop_regex: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    include_stop_str: bool = False
    ignore_eos: bool = False
    time_limit: float | None = None
    speculate: Speculation | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprobs_mode: LogprobsMode = "raw"

    def __post_init__(self) -> None:
        for name, (low, high) in NUMBERS.items():
            check_number(name, getattr(self, name), low, high)
        for name, (first, last) in INTEGERS.items():
            check_int(name, getattr(self, name), first, last)
        for name in ("typical_p", "repetition_penalty"):
            if getattr(self, name) <= 0:
                raise ParameterError(f"{name} is {getattr(self, name)!r}; it must be above 0")
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, 0.0, 1e9)
        if self.temperature_end is not None:
            check_number("temperature_end", self.temperature_end, *NUMBERS["temperature"])
            check_int("temperature_length (which temperature_end needs)", self.temperature_length, 1, 2**31 - 1)
        for name, (first, last) in OPTIONAL_INTEGERS.items():
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), first, last)
        self._check_lists()

    def _check_lists(self) -> None:
        check_bool("include_stop_str", self.include_stop_str)
        check_bool("ignore_eos", self.ignore_eos)
        if self.logprobs_mode not in ("raw", "processed"):
            raise ParameterError(f"logprobs_mode is {self.logprobs_mode!r}; it must be 'raw' or 'processed'")
        if self.speculate not in (None, "ngram", "off"):
            raise ParameterError(f"speculate is {self.speculate!r}; it must be 'ngram', 'off' or None")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ParameterError(f"min_tokens is {self.min_tokens}; it must be at most max_tokens, {self.max_tokens}")
        check_bias("logit_bias", self.logit_bias)
        for name in ("banned_tokens", "stop_token_ids", "visible_tokens"):
            check_tokens(name, getattr(self, name))
        if self.allowed_tokens is not None:
            check_tokens("allowed_tokens", self.allowed_tokens)
            if not len(self.allowed_tokens):
                raise ParameterError("allowed_tokens is empty; it must name at least one token, or be None")
        check_bad_words("bad_words", self.bad_words)
        check_stops("stop", self.stop)
        check_patterns("stop_regex", self.stop_regex)
        check_stages("stages", self.stages)
        self._check_form()

    def _check_form(self) -> None:
        check_bool("json_object", self.json_object)
        check_form(json_schema=self.json_schema, regex=self.regex, choice=self.choice, grammar=self.grammar)
        asked = [name for name in CONSTRAINTS if self._asks(name)]
        if len(asked) > 1:
            raise ParameterError(f"{' and '.join(asked)} are given; the output can have one form only")
        check_bool("reasoning_open", self.reasoning_open)
        if self.reasoning is not None and not isinstance(self.reasoning, ReasoningFormat):
            raise ParameterError(f"reasoning is {self.reasoning!r}; it must be a ReasoningFormat, or None")
        if self.reasoning is None and (self.reasoning_budget is not None or self.reasoning_open):
            raise ParameterError("reasoning_budget and reasoning_open need reasoning: the markers of the model")
        check_stops("dry_sequence_breakers", self.dry_sequence_breakers)
        if self.mirostat not in (0, 2):
            raise ParameterError(f"mirostat is {self.mirostat!r}; it must be 0 (off) or 2")

    def _asks(self, name: str) -> bool:
        return self.json_object if name == "json_object" else getattr(self, name) is not None

    @property
    def constraint(self) -> tuple[ConstraintKind, Any] | None:
        """What the output must be, as (kind, source), the first two arguments of `compile_constraint`; or None."""
        return next(((name, getattr(self, name)) for name in CONSTRAINTS if self._asks(name)), None)

    def check_vocab(self, vocab: int) -> None:
        """Raises ParameterError where a token id named by these parameters is not below `vocab`."""
        lists: dict[str, Sequence[int]] = {
            "logit_bias": tuple(self.logit_bias),
            "allowed_tokens": () if self.allowed_tokens is None else self.allowed_tokens,
            "banned_tokens": self.banned_tokens,
            "stop_token_ids": self.stop_token_ids,
            "visible_tokens": self.visible_tokens,
        }
        for words in self.bad_words:
            if not isinstance(words, str):
                lists["bad_words"] = (*lists.get("bad_words", ()), *words)
        for name, ids in lists.items():
            for token in ids:
                if token >= vocab:
                    raise ParameterError(f"{name} names token {token}; ids of this model are 0 to {vocab - 1}")
        for name in ("logprobs", "prompt_logprobs"):
            if (getattr(self, name) or 0) > vocab:
                raise ParameterError(f"{name} is {getattr(self, name)}; it must be 0 to {vocab}, the vocabulary's size")

    def replace(self, **changes: Any) -> SamplingParams:
        """These parameters with `changes`, checked again. Raises ParameterError for a name that is no parameter."""
        check_names(changes)
        return replace(self, **changes)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def stop_patterns(self) -> tuple[str, ...]:
        return (self.stop_regex,) if isinstance(self.stop_regex, str) else tuple(self.stop_regex)


def check_names(options: Mapping[str, Any]) -> None:
    """Raises ParameterError for a key that is no sampling parameter."""
    known = {f.name for f in fields(SamplingParams)}
    for name in options:
        if name not in known:
            raise ParameterError(f"{name} is no sampling parameter; these are: {', '.join(sorted(known))}")


NUMBERS = {
    "temperature": (0.0, 100.0),
    "dynamic_temperature_range": (0.0, 100.0),
    "dynamic_temperature_exponent": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "typical_p": (0.0, 1.0),
    "top_n_sigma": (-1.0, 1e6),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "mirostat_tau": (0.0, 100.0),
    "mirostat_eta": (0.0, 1.0),
    "dry_multiplier": (0.0, 100.0),
    "dry_base": (1.0, 100.0),
    "repetition_penalty": (0.0, 1e6),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
INTEGERS = {
    "temperature_length": (0, 2**31 - 1),
    "top_k": (-1, 2**31 - 1),
    "no_repeat_ngram": (0, 2**31 - 1),
    "mirostat": (0, 2),
    "dry_allowed_length": (1, 2**31 - 1),
    "dry_penalty_last_n": (-1, 2**31 - 1),
    "n": (1, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1),
}
OPTIONAL_INTEGERS = {
    "seed": (-(2**63), 2**64 - 1),
    "max_tokens": (0, 2**31 - 1),
    "reasoning_budget": (0, 2**31 - 1),
    "logprobs": (0, 2**31 - 1),
    "prompt_logprobs": (0, 2**31 - 1),
}
