"""The table of sampling parameters: what a caller may ask of the sampler, checked when it is said.

Each field is one entry: type, range, stage, help and other names (see parameter.py). The fields that switch on a stage
stand in the order in which the stages run. A new stage is a file with `stage_NAME` and its entries here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cutaway.errors import ParameterError
from cutaway.sampling.checks import check_ids, check_integer, check_parameter
from cutaway.sampling.parameter import (
    Alias,
    entry,
    flag,
    integer,
    internal,
    number,
    stages_of,
    table,
    texts,
    tokens,
    word,
)

if TYPE_CHECKING:
    from cutaway.sampling.stages.custom_stage import Stage
    from cutaway.text.chat.reasoning import ReasoningFormat

GREEDY_BELOW = 1e-5
"""A temperature below this is greedy: the best token, lowest id first, no random number."""

Speculation = Literal["ngram", "off"]
LogprobsMode = Literal["raw", "processed"]
ConstraintKind = Literal["json_object", "json_schema", "regex", "choice", "grammar"]
CONSTRAINTS: tuple[ConstraintKind, ...] = ("json_object", "json_schema", "regex", "choice", "grammar")

_MAIN = "Sampling"
_REPEAT = "Against repetition"
_STOP = "Stopping"
_FORM: dict[str, Any] = {"panel": "Form of the answer", "config": False}  # a form belongs to one request
_TELL = "Beside the answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen and when to stop. docs/parameters.md lists the fields.

    Every value is checked when the object is made: a `ParameterError` names the field, the value and the range.
    """

    logit_bias: Mapping[int, float] = entry(
        "bias", {}, stage="logit_edits:logit_bias", metavar="ID=BIAS",
        help="Add this to the logits of these tokens, -100 to 100; -100 bans a token.",
    )  # fmt: skip
    allowed_tokens: Sequence[int] | None = entry(
        "tokens", None, optional=True, stage="logit_edits:allowed_tokens", flags=("--allow-token",), metavar="ID",
        aliases=(Alias("allowed_token_ids", "vLLM"),), help="Choose among these token ids only.",
    )  # fmt: skip
    banned_tokens: Sequence[int] = tokens(
        stage="logit_edits:banned_tokens", flags=("--ban-token",), metavar="ID", help="Never choose these token ids."
    )
    bad_words: Sequence[str | Sequence[int]] = entry(
        "words", (), stage="logit_edits:bad_words", flags=("--bad-word",), metavar="TEXT",
        help="Never write these texts, with or without a leading space.",
    )  # fmt: skip
    min_tokens: int = integer(
        0, 0, stage="logit_edits:min_tokens", panel=_STOP, aliases=(Alias("min_new_tokens", "SGLang"),),
        help="No end token, stop token or stop text counts before that many tokens.",
    )  # fmt: skip
    repetition_penalty: float = number(
        1.0, 0, 1e6, above=True, stage="logit_edits:repetition_penalty", panel=_REPEAT,
        aliases=(Alias("repeat_penalty", "llama.cpp"),),
        help="Divide positive logits of tokens of prompt and answer by this, multiply negative ones; 1 is off.",
    )  # fmt: skip
    presence_penalty: float = number(
        0.0, -2, 2, stage="logit_edits:presence_penalty", panel=_REPEAT,
        help="Subtract this once from tokens that are in the answer.",
    )  # fmt: skip
    frequency_penalty: float = number(
        0.0, -2, 2, stage="logit_edits:frequency_penalty", panel=_REPEAT,
        help="Subtract this per occurrence in the answer.",
    )  # fmt: skip
    no_repeat_ngram: int = integer(
        0, 0, stage="logit_edits:no_repeat_ngram", panel=_REPEAT,
        aliases=(Alias("no_repeat_ngram_size", "Hugging Face"),),
        help="No run of that many tokens, prompt included, comes twice; 0 is off.",
    )  # fmt: skip
    dry_multiplier: float = number(
        0.0, 0, 100, stage="dry:dry", panel=_REPEAT,
        help="DRY, a penalty on continuing a repetition: this times base^(length - allowed length); 0 is off.",
    )  # fmt: skip
    dry_base: float = number(
        1.75, 1, 100, stage="dry", panel=_REPEAT, help="DRY: how fast the penalty grows with the length."
    )
    dry_allowed_length: int = integer(
        2, 1, stage="dry", panel=_REPEAT, help="DRY: the longest repetition without a penalty."
    )
    dry_penalty_last_n: int = integer(
        -1, -1, stage="dry", panel=_REPEAT, help="DRY: look at the last N tokens; -1: at all, 0: off."
    )
    dry_sequence_breakers: Sequence[str] = texts(
        "\n", ":", '"', "*", stage="dry", panel=_REPEAT, flags=("--dry-sequence-breaker",), metavar="TEXT",
        help="DRY: texts across which nothing counts as a repetition.",
    )  # fmt: skip
    stages: Sequence[Stage] = internal(
        "functions",
        (),
        stage="logit_edits:stages",
        help="Own stages, functions of (logits, prompt, generated); see Stage.",
    )
    reasoning_budget: int | None = integer(
        None, 0, stage="constraint:reasoning_budget", cli=False, config=False, request="route",
        aliases=(Alias("thinking_token_budget", "vLLM", everywhere=False),),
        help="Tokens of reasoning after which its closing marker is forced, up to three later.",
    )  # fmt: skip
    json_object: bool = flag(stage="constraint:constraint", request=False, **_FORM, help="The answer is a JSON object.")
    json_schema: Mapping[str, Any] | bool | str | None = entry(
        "schema", None, optional=True, stage="constraint", metavar="JSON|@FILE", **_FORM,
        aliases=(Alias("guided_json", "vLLM"),), help="The answer is JSON that this schema accepts.",
    )  # fmt: skip
    regex: str | None = entry(
        "text", None, optional=True, stage="constraint", metavar="PATTERN", **_FORM,
        aliases=(Alias("guided_regex", "vLLM"),), help="The whole answer matches this regular expression.",
    )  # fmt: skip
    choice: Sequence[str] | None = entry(
        "texts", None, optional=True, stage="constraint", flags=("--one-of",), metavar="TEXT", **_FORM,
        aliases=(Alias("guided_choice", "vLLM"),), help="The answer is one of these texts.",
    )  # fmt: skip
    grammar: str | None = entry(
        "text", None, optional=True, stage="constraint", metavar="TEXT|@FILE", **_FORM,
        aliases=(Alias("guided_grammar", "vLLM"),), help="The answer follows this grammar, Lark or GBNF.",
    )  # fmt: skip
    top_n_sigma: float = number(
        0.0, -1, 1e6, stage="logit_edits:top_n_sigma",
        help="Keep logits within that many standard deviations of the best; 0 is off.",
    )  # fmt: skip
    temperature: float = number(
        1.0, 0, 100, stage="temperature", panel=_MAIN, flags=("--temperature", "-t"),
        help="Higher is more varied; 0 is greedy: always the most probable token.",
    )  # fmt: skip
    temperature_end: float | None = number(
        None, 0, 100, stage="temperature", help="Move the temperature to this, in a straight line."
    )
    temperature_length: int = integer(0, 0, stage="temperature", help="Tokens after which temperature_end is reached.")
    dynamic_temperature_range: float = number(
        0.0, 0, 100, stage="temperature", aliases=(Alias("dynatemp_range", "llama.cpp"),),
        help="Temperature by entropy: lower by up to this where the model is sure, higher where it is not; 0 is off.",
    )  # fmt: skip
    dynamic_temperature_exponent: float = number(
        1.0, 0, 100, stage="temperature", aliases=(Alias("dynatemp_exponent", "llama.cpp"),),
        help="How entropy maps to temperature.",
    )  # fmt: skip
    top_k: int = integer(
        0, -1, stage="truncation:top_k", panel=_MAIN, help="Keep the k most probable tokens; 0 or -1 is off."
    )
    top_p: float = number(
        1.0, 0, 1, stage="truncation:top_p", panel=_MAIN,
        help="Keep the fewest most probable tokens that hold this share; 1 is off.",
    )  # fmt: skip
    min_p: float = number(
        0.0, 0, 1, stage="truncation:min_p", panel=_MAIN,
        help="Keep tokens at least this share as probable as the best; 0 is off.",
    )  # fmt: skip
    typical_p: float = number(
        1.0, 0, 1, above=True, stage="truncation:typical_p", help="Locally typical sampling; 1 is off."
    )
    xtc_probability: float = number(
        0.0, 0, 1, stage="truncation:xtc",
        help="XTC: how often to leave out all but the least of the probable tokens; 0 is off.",
    )  # fmt: skip
    xtc_threshold: float = number(0.1, 0, 1, stage="xtc", help="XTC: the share from which a token is a probable one.")
    mirostat: int = integer(
        0, 0, 2, choices=(0, 2), stage="truncation:mirostat", help="Mirostat: 2 is mirostat 2, 0 is off."
    )
    mirostat_tau: float = number(5.0, 0, 100, stage="mirostat", help="Mirostat: the surprise to keep to, in bits.")
    mirostat_eta: float = number(0.1, 0, 1, stage="mirostat", help="Mirostat: how fast it learns.")
    seed: int | None = integer(
        None, -(2**63), 2**64 - 1, panel=_MAIN,
        help="The same seed and request give the same answer. Without it one is drawn and shown.",
    )  # fmt: skip
    n: int = integer(1, 1, panel=_TELL, flags=("--choices",), config=False, help="How many answers to give.")
    reasoning: ReasoningFormat | None = internal(
        "object", None, optional=True, help="The markers of reasoning, behind which a form and stops begin to hold."
    )
    reasoning_open: bool = internal("flag", False, help="The prompt has begun the reasoning.")
    visible_tokens: Sequence[int] = internal("tokens", (), help="Control tokens whose names show in the text.")
    max_tokens: int | None = integer(
        None, 0, panel=_STOP, flags=("--max-tokens", "-n"),
        aliases=(
            Alias("max_completion_tokens", "OpenAI", everywhere=False),
            Alias("max_output_tokens", "OpenAI", everywhere=False),
            Alias("n_predict", "llama.cpp"),
        ),
        help="The most tokens of an answer. Without it: to the end of the context.",
    )  # fmt: skip
    stop: str | Sequence[str] = texts(
        panel=_STOP, metavar="TEXT", aliases=(Alias("stop_sequences", "Anthropic", everywhere=False),),
        help="End before this text.",
    )  # fmt: skip
    stop_regex: str | Sequence[str] = entry(
        "texts", (), panel=_STOP, metavar="PATTERN", help="End before a match of this regular expression."
    )
    stop_token_ids: Sequence[int] = tokens(
        panel=_STOP, flags=("--stop-token",), metavar="ID", help="End at this token id."
    )
    include_stop_str: bool = flag(
        panel=_STOP, flags=("--include-stop",), aliases=(Alias("include_stop_str_in_output", "vLLM"),),
        help="Leave the text that ended the answer in it.",
    )  # fmt: skip
    ignore_eos: bool = flag(panel=_STOP, help="Go on after the model's own end tokens.")
    stop_on_repetition: bool | None = entry(
        "flag", None, optional=True, panel=_STOP,
        help="End an answer whose last 200 tokens or more are ten or more times the same; else it is a warning.",
    )  # fmt: skip
    time_limit: float | None = number(
        None, 0, 1e9, panel=_STOP, aliases=(Alias("t_max_predict_ms", "llama.cpp", scale=1e-3),),
        help="Seconds after which the answer ends.",
    )  # fmt: skip
    speculate: Speculation | None = word(
        None, "ngram", "off", cli=False, config=False,
        help="Compute tokens beforehand where an answer repeats what was there: the same answer in fewer steps.",
    )  # fmt: skip
    logprobs: int | None = integer(
        None, 0, panel=_TELL, config=False, request="route",
        help="Give the log-probability of each token, and those of the N most probable.",
    )  # fmt: skip
    prompt_logprobs: int | None = integer(None, 0, panel=_TELL, config=False, help="The same for the prompt's tokens.")
    logprobs_mode: LogprobsMode = word(
        "raw", "raw", "processed", panel=_TELL,
        help="Log-probabilities of the model's own distribution, or of the one drawn from.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for parameter in PARAMETERS:
            check_parameter(parameter, getattr(self, parameter.name))
        if self.temperature_end is not None:
            check_integer("temperature_length (which temperature_end needs)", self.temperature_length, 1, 2**31 - 1)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ParameterError(f"min_tokens is {self.min_tokens}; it must be at most max_tokens, {self.max_tokens}")
        asked = [name for name in CONSTRAINTS if self._asks(name)]
        if len(asked) > 1:
            raise ParameterError(f"{' and '.join(asked)} are given; the output can have one form only")
        if self.reasoning is None and (self.reasoning_budget is not None or self.reasoning_open):
            raise ParameterError("reasoning_budget and reasoning_open need reasoning: the markers of the model")

    def _asks(self, name: str) -> bool:
        return self.json_object if name == "json_object" else getattr(self, name) is not None

    @property
    def constraint(self) -> tuple[ConstraintKind, Any] | None:
        """What the output must be, as (kind, source), the first two arguments of `compile_constraint`; or None."""
        return next(((name, getattr(self, name)) for name in CONSTRAINTS if self._asks(name)), None)

    def check_vocab(self, vocab: int) -> None:
        """Raises ParameterError where a token id named by these parameters is not below `vocab`."""
        for parameter in PARAMETERS:
            check_ids(parameter, getattr(self, parameter.name), vocab)
        for name in ("logprobs", "prompt_logprobs"):
            if (getattr(self, name) or 0) > vocab:
                raise ParameterError(f"{name} is {getattr(self, name)}; it must be 0 to {vocab}, the vocabulary's size")

    def replace(self, **changes: Any) -> SamplingParams:
        """These parameters with `changes`, checked again. Raises ParameterError for a name that is no parameter."""
        check_names(changes)
        return dataclasses.replace(self, **changes)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def stop_patterns(self) -> tuple[str, ...]:
        return (self.stop_regex,) if isinstance(self.stop_regex, str) else tuple(self.stop_regex)


PARAMETERS = table(SamplingParams)
"""The table: every parameter, in order."""

STAGES = stages_of(PARAMETERS)
"""The order of the stages, that of the table. It is fixed; only those that the parameters ask for run. Penalties before
the temperature, as in vLLM and Hugging Face; the truncations in Hugging Face's order, each over what the one before has
left. Those before `temperature` change the row of logits, those behind it choose among what is left."""


def check_names(options: Mapping[str, Any]) -> None:
    """Raises ParameterError for a key that is no sampling parameter."""
    known = {parameter.name for parameter in PARAMETERS}
    for name in options:
        if name not in known:
            raise ParameterError(f"{name} is no sampling parameter; these are: {', '.join(sorted(known))}")
