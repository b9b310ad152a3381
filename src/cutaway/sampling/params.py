"""The table of sampling parameters.

Each field is one entry: type, range, stage, help and other names (see parameter.py). The fields that enable a stage
are in the order in which the stages run. A new stage needs a file with `stage_NAME` and its entries here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cutaway.errors import ParameterError
from cutaway.sampling.checks import LoopPolicy, check_ids, check_integer, check_parameter, check_policy
from cutaway.sampling.old_positions import old_positions
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
"""Below this temperature sampling is greedy: the best token, ties to the lowest id, no random number."""

Speculation = Literal["ngram", "off"]
LogprobsMode = Literal["raw", "processed"]
ConstraintKind = Literal["json_object", "json_schema", "regex", "choice", "grammar"]
CONSTRAINTS: tuple[ConstraintKind, ...] = ("json_object", "json_schema", "regex", "choice", "grammar")

_MAIN = "Sampling"
_REPEAT = "Against repetition"
_STOP = "Stopping"
_FORM: dict[str, Any] = {"panel": "Form of the answer", "config": False}  # a form belongs to one request
_OUTPUT = "Additional output"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen and when an answer ends. docs/parameters.md lists the fields.

    The constructor checks every value. A `ParameterError` names the field, the value and the range.
    """

    logit_bias: Mapping[int, float] = entry(
        "bias", {}, stage="logit_edits:logit_bias", metavar="ID=BIAS",
        help="Add a bias from -100 to 100 to the logits of these tokens; -100 bans a token.",
    )  # fmt: skip
    allowed_tokens: Sequence[int] | None = entry(
        "tokens", None, optional=True, stage="logit_edits:allowed_tokens", flags=("--allow-token",), metavar="ID",
        aliases=(Alias("allowed_token_ids", "vLLM"),), help="Generate only these token ids.",
    )  # fmt: skip
    banned_tokens: Sequence[int] = tokens(
        stage="logit_edits:banned_tokens", flags=("--ban-token",), metavar="ID", help="Never generate these token ids."
    )
    bad_words: Sequence[str | Sequence[int]] = entry(
        "words", (), stage="logit_edits:bad_words", flags=("--bad-word",), metavar="TEXT",
        help="Never generate these texts, with or without a leading space.",
    )  # fmt: skip
    min_tokens: int = integer(
        0, 0, stage="logit_edits:min_tokens", panel=_STOP, aliases=(Alias("min_new_tokens", "SGLang"),),
        help="Generate at least this many tokens before an end token, a stop token or a stop text can end the answer.",
    )  # fmt: skip
    repetition_penalty: float = number(
        1.0, 0, 1e6, above=True, stage="logit_edits:repetition_penalty", panel=_REPEAT,
        aliases=(Alias("repeat_penalty", "llama.cpp"),),
        help="Divide the positive logits of tokens in prompt and answer by this, multiply the negative ones; 1 is off.",
    )  # fmt: skip
    presence_penalty: float = number(
        0.0, -2, 2, stage="logit_edits:presence_penalty", panel=_REPEAT,
        help="Subtract this value once from the logit of each token that occurs in the answer.",
    )  # fmt: skip
    frequency_penalty: float = number(
        0.0, -2, 2, stage="logit_edits:frequency_penalty", panel=_REPEAT,
        help="Subtract this value from a token's logit for each time that it occurs in the answer.",
    )  # fmt: skip
    no_repeat_ngram: int = integer(
        0, 0, stage="logit_edits:no_repeat_ngram", panel=_REPEAT,
        aliases=(Alias("no_repeat_ngram_size", "Hugging Face"),),
        help="Never repeat a run of this many tokens, prompt included; 0 is off.",
    )  # fmt: skip
    dry_multiplier: float = number(
        0.0, 0, 100, stage="dry:dry", panel=_REPEAT,
        help="DRY penalizes continuing a repetition by this value times base^(length - allowed length); 0 is off.",
    )  # fmt: skip
    dry_base: float = number(
        1.75, 1, 100, stage="dry", panel=_REPEAT, help="DRY: how fast the penalty grows with the length."
    )
    dry_allowed_length: int = integer(
        2, 1, stage="dry", panel=_REPEAT, help="DRY: the longest repetition that is not penalized."
    )
    dry_penalty_last_n: int = integer(
        -1, -1, stage="dry", panel=_REPEAT, help="DRY: search the last N tokens; -1 searches all, 0 is off."
    )
    dry_sequence_breakers: Sequence[str] = texts(
        "\n", ":", '"', "*", stage="dry", panel=_REPEAT, flags=("--dry-sequence-breaker",), metavar="TEXT",
        help="DRY: texts that interrupt a repetition.",
    )  # fmt: skip
    stages: Sequence[Stage] = internal(
        "functions", (), stage="logit_edits:stages",
        help="Custom stages: functions of (logits, prompt, generated); see Stage.",
    )  # fmt: skip
    reasoning_budget: int | None = integer(
        None, 0, stage="constraint:reasoning_budget", cli=False, config=False, request="route",
        aliases=(Alias("thinking_token_budget", "vLLM", everywhere=False),),
        help="Close the reasoning after this many tokens, or up to three more.",
    )  # fmt: skip
    json_object: bool = flag(
        stage="constraint:constraint", request=False, **_FORM, help="The answer must be a JSON object."
    )
    json_schema: Mapping[str, Any] | bool | str | None = entry(
        "schema", None, optional=True, stage="constraint", metavar="JSON|@FILE", **_FORM,
        aliases=(Alias("guided_json", "vLLM"),), help="The answer must be JSON that is valid under this schema.",
    )  # fmt: skip
    regex: str | None = entry(
        "text", None, optional=True, stage="constraint", metavar="PATTERN", **_FORM,
        aliases=(Alias("guided_regex", "vLLM"),), help="The whole answer must match this regular expression.",
    )  # fmt: skip
    choice: Sequence[str] | None = entry(
        "texts", None, optional=True, stage="constraint", flags=("--one-of",), metavar="TEXT", **_FORM,
        aliases=(Alias("guided_choice", "vLLM"),), help="The answer must be one of these texts.",
    )  # fmt: skip
    grammar: str | None = entry(
        "text", None, optional=True, stage="constraint", metavar="TEXT|@FILE", **_FORM,
        aliases=(Alias("guided_grammar", "vLLM"),), help="The answer must follow this Lark or GBNF grammar.",
    )  # fmt: skip
    top_n_sigma: float = number(
        0.0, -1, 1e6, stage="logit_edits:top_n_sigma",
        help="Keep the logits within this many standard deviations of the highest one; 0 is off.",
    )  # fmt: skip
    on_repetition: LoopPolicy | None = word(
        None, "warn", "stop", "cool", stage="cool:cool", panel=_REPEAT,
        help="When the answer repeats itself in a loop: warn, stop, or cool (halve the temperature meanwhile).",
    )  # fmt: skip
    temperature: float = number(
        1.0, 0, 100, stage="temperature", panel=_MAIN, flags=("--temperature", "-t"),
        help="Higher values give more varied answers; 0 always takes the most probable token (greedy).",
    )  # fmt: skip
    temperature_end: float | None = number(
        None, 0, 100, stage="temperature", help="Change the temperature linearly to this value."
    )
    temperature_length: int = integer(0, 0, stage="temperature", help="Reach temperature_end after this many tokens.")
    dynamic_temperature_range: float = number(
        0.0, 0, 100, stage="temperature", aliases=(Alias("dynatemp_range", "llama.cpp"),),
        help="Adapt the temperature to the entropy, by up to this value: lower where the model is certain; 0 is off.",
    )  # fmt: skip
    dynamic_temperature_exponent: float = number(
        1.0, 0, 100, stage="temperature", aliases=(Alias("dynatemp_exponent", "llama.cpp"),),
        help="Exponent of the mapping from entropy to temperature.",
    )  # fmt: skip
    top_k: int = integer(
        0, -1, stage="truncation:top_k", panel=_MAIN, help="Keep the k most probable tokens; 0 or -1 is off."
    )
    top_p: float = number(
        1.0, 0, 1, stage="truncation:top_p", panel=_MAIN,
        help="Keep the smallest set of most probable tokens whose probabilities add up to this value; 1 is off.",
    )  # fmt: skip
    min_p: float = number(
        0.0, 0, 1, stage="truncation:min_p", panel=_MAIN,
        help="Keep the tokens whose probability is at least this fraction of the highest one; 0 is off.",
    )  # fmt: skip
    typical_p: float = number(
        1.0, 0, 1, above=True, stage="truncation:typical_p", help="Locally typical sampling up to this mass; 1 is off."
    )
    xtc_probability: float = number(
        0.0, 0, 1, stage="truncation:xtc",
        help="XTC: how often to remove all tokens above the threshold but the least probable of them; 0 is off.",
    )  # fmt: skip
    xtc_threshold: float = number(0.1, 0, 1, stage="xtc", help="XTC: the lowest probability of a token to remove.")
    mirostat: int = integer(
        0, 0, 2, choices=(0, 2), stage="truncation:mirostat", help="Version of mirostat: 2, or 0 for off."
    )
    mirostat_tau: float = number(5.0, 0, 100, stage="mirostat", help="Mirostat: the target surprise, in bits.")
    mirostat_eta: float = number(0.1, 0, 1, stage="mirostat", help="Mirostat: the learning rate.")
    seed: int | None = integer(
        None, -(2**63), 2**64 - 1, panel=_MAIN,
        help="The same seed and request give the same answer. Without it a seed is drawn and reported.",
    )  # fmt: skip
    n: int = integer(1, 1, panel=_OUTPUT, flags=("--choices",), config=False, help="Number of answers.")
    reasoning: ReasoningFormat | None = internal(
        "object", None, optional=True, help="The markers of reasoning. Constraints and stops apply only after it."
    )
    reasoning_open: bool = internal("flag", False, help="Whether the prompt has already opened the reasoning.")
    visible_tokens: Sequence[int] = internal("tokens", (), help="Control tokens whose names are shown in the text.")
    max_tokens: int | None = integer(
        None, 0, panel=_STOP, flags=("--max-tokens", "-n"),
        aliases=(
            Alias("max_completion_tokens", "OpenAI", everywhere=False),
            Alias("max_output_tokens", "OpenAI", everywhere=False),
            Alias("n_predict", "llama.cpp"),
        ),
        help="Maximum number of tokens in the answer. Without it the answer may fill the context.",
    )  # fmt: skip
    stop: str | Sequence[str] = texts(
        panel=_STOP, metavar="TEXT", aliases=(Alias("stop_sequences", "Anthropic", everywhere=False),),
        help="End the answer before this text.",
    )  # fmt: skip
    stop_regex: str | Sequence[str] = entry(
        "texts", (), panel=_STOP, metavar="PATTERN", help="End the answer before a match of this regular expression."
    )
    stop_token_ids: Sequence[int] = tokens(
        panel=_STOP, flags=("--stop-token",), metavar="ID", help="End the answer at this token id."
    )
    include_stop_str: bool = flag(
        panel=_STOP, flags=("--include-stop",), aliases=(Alias("include_stop_str_in_output", "vLLM"),),
        help="Keep the text that ended the answer in the answer.",
    )  # fmt: skip
    ignore_eos: bool = flag(panel=_STOP, help="Continue after the model's own end tokens.")
    stop_on_repetition: bool | None = entry(
        "flag", None, optional=True, panel=_STOP,
        help="End an answer whose last 200 tokens or more repeat one sequence ten or more times; otherwise only warn.",
    )  # fmt: skip
    time_limit: float | None = number(
        None, 0, 1e9, panel=_STOP, aliases=(Alias("t_max_predict_ms", "llama.cpp", scale=1e-3),),
        help="End the answer after this many seconds.",
    )  # fmt: skip
    speculate: Speculation | None = word(
        None, "ngram", "off", cli=False, config=False,
        help="Draft tokens where the answer repeats earlier text: the same answer, computed in fewer steps.",
    )  # fmt: skip
    logprobs: int | None = integer(
        None, 0, panel=_OUTPUT, config=False, request="route",
        help="Return the log-probability of each token, and of the N most probable ones.",
    )  # fmt: skip
    prompt_logprobs: int | None = integer(None, 0, panel=_OUTPUT, config=False, help="The same for prompt tokens.")
    logprobs_mode: LogprobsMode = word(
        "raw", "raw", "processed", panel=_OUTPUT,
        help="Log-probabilities of the model's own distribution (raw), or of the one that is sampled (processed).",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for parameter in PARAMETERS:
            check_parameter(parameter, getattr(self, parameter.name))
        if self.temperature_end is not None:
            check_integer("temperature_length (which temperature_end needs)", self.temperature_length, 1, 2**31 - 1)
        check_policy(self.on_repetition, self.stop_on_repetition)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ParameterError(f"min_tokens is {self.min_tokens}; it must be at most max_tokens, {self.max_tokens}")
        given = [name for name in CONSTRAINTS if self._sets(name)]
        if len(given) > 1:
            raise ParameterError(f"{' and '.join(given)} are given; an answer can have only one form")
        if self.reasoning is None and (self.reasoning_budget is not None or self.reasoning_open):
            raise ParameterError("reasoning_budget and reasoning_open need reasoning: the markers of the model")

    def _sets(self, name: str) -> bool:
        return self.json_object if name == "json_object" else getattr(self, name) is not None

    @property
    def constraint(self) -> tuple[ConstraintKind, Any] | None:
        """The constraint on the output as (kind, source), the first two arguments of `compile_constraint`, or None."""
        return next(((name, getattr(self, name)) for name in CONSTRAINTS if self._sets(name)), None)

    def check_vocab(self, vocab: int) -> None:
        """Raises ParameterError if a token id in these parameters is not below `vocab`."""
        for parameter in PARAMETERS:
            check_ids(parameter, getattr(self, parameter.name), vocab)
        for name in ("logprobs", "prompt_logprobs"):
            if (getattr(self, name) or 0) > vocab:
                raise ParameterError(f"{name} is {getattr(self, name)}; it must be 0 to {vocab}, the vocabulary's size")

    def replace(self, **changes: Any) -> SamplingParams:
        """A copy with `changes`, checked again. Raises ParameterError for a name that is not a parameter."""
        check_names(changes)
        return dataclasses.replace(self, **changes)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def stop_patterns(self) -> tuple[str, ...]:
        return (self.stop_regex,) if isinstance(self.stop_regex, str) else tuple(self.stop_regex)


PARAMETERS = table(old_positions(SamplingParams))
"""Every parameter, in the order of the table."""

STAGES = stages_of(PARAMETERS)
"""The names of the stages in the fixed order in which they run. A stage runs only if its parameters enable it.
Penalties come before the temperature, as in vLLM and Hugging Face. The truncations have Hugging Face's order, and each
works on the candidates that the previous one kept. Stages before `temperature` edit the row of logits."""


def check_names(options: Mapping[str, Any]) -> None:
    """Raises ParameterError for a key that is not a sampling parameter."""
    known = {parameter.name for parameter in PARAMETERS}
    if wrong := [name for name in options if name not in known]:
        raise ParameterError(f"{wrong[0]} is not a sampling parameter; the parameters are: {', '.join(sorted(known))}")
