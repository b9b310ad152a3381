"""The order of the stages is that of the table, and every one of them can be made."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from cutaway.sampling import PARAMETERS, STAGES, Sampler, SamplingParams
from cutaway.sampling.stages.find import makers
from cutaway.text import ReasoningFormat
from cutaway.trace import MemoryRecorder
from sampling.small_tokenizer import small_tokenizer

ORDER = [
    "logit_bias", "allowed_tokens", "banned_tokens", "bad_words", "min_tokens", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "no_repeat_ngram", "dry", "stages", "reasoning_budget", "constraint",
    "top_n_sigma", "cool", "temperature", "top_k", "top_p", "min_p", "typical_p", "xtc", "mirostat",
]  # fmt: skip
"""Written down once more on purpose: moving an entry of the table moves a stage."""


def own(logits: Any, prompt: Any, generated: Any) -> None: ...


EVERYTHING: dict[str, Any] = {
    "logit_bias": {5: 1.0}, "allowed_tokens": range(270), "banned_tokens": [7], "bad_words": ["zebra"],
    "min_tokens": 3, "repetition_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.1,
    "no_repeat_ngram": 9, "dry_multiplier": 0.5, "stages": [own], "regex": ".*", "top_n_sigma": 50.0, "top_k": 200,
    "reasoning": ReasoningFormat(), "reasoning_open": True, "reasoning_budget": 50,
    "top_p": 0.99, "min_p": 1e-9, "typical_p": 0.999, "xtc_probability": 1.0, "xtc_threshold": 0.5, "mirostat": 2,
    "mirostat_tau": 90.0, "temperature": 0.9, "on_repetition": "cool",
}  # fmt: skip


def test_the_order_is_written_down_twice() -> None:
    assert list(STAGES) == ORDER
    rows, cuts = makers()
    assert [name for name, _ in rows] == ORDER[: ORDER.index("temperature")]
    assert [name for name, _ in cuts] == ORDER[ORDER.index("temperature") + 1 :]


def test_each_stage_is_made_by_one_function_of_its_name() -> None:
    rows, cuts = makers()
    for made, arguments in ((rows, ["params", "needs"]), (cuts, ["params", "vocab", "moment"])):
        for name, make in made:
            assert make.__name__ == f"stage_{name}" and list(inspect.signature(make).parameters) == arguments
    switches = [p.stage_name for p in PARAMETERS if ":" in (p.stage or "")]
    assert sorted(switches) == sorted(name for name in STAGES if name != "temperature")


def test_all_stages_run_in_that_order() -> None:
    """The record of one token with every stage."""
    tokenizer = small_tokenizer()
    recorder = MemoryRecorder()
    sampler = Sampler(
        SamplingParams(**EVERYTHING), seed=3, prompt=[5, 6, 5], end_ids=frozenset({2}), tokenizer=tokenizer
    )
    logits = np.random.default_rng(1).normal(size=tokenizer.vocab_size).astype(np.float32)
    names = [record.name for record in sampler.choose(logits, recorder).stages]
    assert names == ["model", *("own" if name == "stages" else name for name in ORDER)]
    assert len(ORDER) == 22


def test_nothing_runs_that_is_not_asked_for() -> None:
    sampler = Sampler(SamplingParams(), seed=1)
    names = [record.name for record in sampler.choose(np.zeros(9, np.float32), MemoryRecorder()).stages]
    assert names == ["model", "temperature"]
