"""SamplingParams by position, as it could be made before 0.2. It works until 0.3."""

from __future__ import annotations

import functools
import warnings
from typing import Any, TypeVar

T = TypeVar("T")
# The order that the fields had. It stays as it was, whatever order they have now.
ORDER = tuple(
    """temperature temperature_end temperature_length dynamic_temperature_range dynamic_temperature_exponent top_k
    top_p min_p typical_p top_n_sigma xtc_probability xtc_threshold mirostat mirostat_tau mirostat_eta
    repetition_penalty presence_penalty frequency_penalty no_repeat_ngram dry_multiplier dry_base
    dry_allowed_length dry_penalty_last_n dry_sequence_breakers logit_bias allowed_tokens banned_tokens
    bad_words stages json_object json_schema regex choice grammar reasoning reasoning_open reasoning_budget
    visible_tokens seed n max_tokens min_tokens stop stop_regex stop_token_ids include_stop_str ignore_eos
    time_limit speculate logprobs prompt_logprobs logprobs_mode""".split()  # noqa: SIM905
)


def old_positions(kind: type[T]) -> type[T]:
    """The class, which takes values without names as well, with a DeprecationWarning."""
    made = kind.__init__

    @functools.wraps(made)
    def init(self: T, *values: Any, **named: Any) -> None:
        if values:
            names = ORDER[: len(values)]
            if len(values) > len(ORDER) or not named.keys().isdisjoint(names):
                raise TypeError(f"{kind.__name__} takes its parameters by name, each once")
            warnings.warn(
                f"{kind.__name__}({', '.join(f'{name}=' for name in names)}): give parameters by name; from version "
                "0.3 on they have no positions", DeprecationWarning, stacklevel=2,
            )  # fmt: skip
            named = dict(zip(names, values, strict=True)) | named
        made(self, **named)

    setattr(kind, "__init__", init)  # noqa: B010
    return kind
