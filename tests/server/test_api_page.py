"""docs/api.md against the code, in both directions and both languages."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutaway.config import LimitsConfig
from cutaway.sampling import SamplingParams
from cutaway.server.api.sampling import OURS, sampling_params
from cutaway.server.api.schemas import Chat, Choosing, Completion, Messages, Responses
from cutaway.server.api.validation import ONLY, WITHOUT_EFFECT, read_fields
from cutaway.server.routes import ROUTES

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "api.md", DOCS / "api.zh-CN.md"]
SCHEMAS = [route.schema for route in ROUTES if route.schema is not None]
FIELDS = {name for schema in SCHEMAS for name in schema.model_fields}
GENERATING = (Chat, Completion, Responses, Messages)
BARE: dict[type[Choosing], dict[str, Any]] = {
    Chat: {"messages": []}, Completion: {"prompt": "x"}, Responses: {"input": "x"},
    Messages: {"messages": [], "max_tokens": 5},
}  # fmt: skip


def code_words(text: str) -> set[str]:
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


def rows(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Of the table of what every generating route takes: names, other names."""
    table = page.read_text(encoding="utf-8").split("\n## ")[3]
    for line in table.splitlines():
        cells = line.split("|")
        if line.startswith("| `") and len(cells) == 5:
            yield re.findall(r"`([^`]+)`", cells[1]), re.findall(r"`([^`]+)`", cells[2])


@pytest.mark.parametrize("page", PAGES)
def test_every_field_of_the_code_stands_on_the_page(page: Path) -> None:
    known = FIELDS | WITHOUT_EFFECT | ONLY.keys() | {name for schema in SCHEMAS for name in schema.without_effect}
    table = page.with_name(page.name.replace("api", "parameters"))  # of the sampling parameters
    assert not known - code_words(page.read_text(encoding="utf-8")) - code_words(table.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_every_route_stands_on_the_page(page: Path) -> None:
    told = page.read_text(encoding="utf-8")
    known = [f"`{route.method} {route.template}`" for route in ROUTES]
    assert not [route for route in known if route not in told]


def test_what_the_page_names_is_taken_and_means_what_it_says() -> None:
    """Each name is a field; where it is a sampling parameter, other names in its row lead to one of the row."""
    parameters = {field.name for field in dataclasses.fields(SamplingParams)}
    count = 0
    for names, others in rows(PAGES[0]):
        for name in names + others:
            assert name.split(".")[0] in FIELDS, name
            count += 1
        for other in others:
            if OURS.get(other, other) in parameters and other not in ("structured_outputs", "stop_sequences"):
                assert OURS.get(other, other) in names, other
    assert count > 35
    assert list(rows(PAGES[0])) == list(rows(PAGES[1]))


VALUES: dict[str, Any] = {
    "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.5, "typical_p": 0.5, "top_n_sigma": 1.5,
    "xtc_probability": 0.5, "xtc_threshold": 0.2, "mirostat": 2, "mirostat_tau": 4.0, "mirostat_eta": 0.2,
    "dry_multiplier": 0.5, "dry_base": 1.5, "dry_allowed_length": 3, "dry_penalty_last_n": 7,
    "dry_sequence_breakers": ["x"], "presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.5,
    "repeat_penalty": 1.5, "no_repeat_ngram": 3, "no_repeat_ngram_size": 3, "temperature_end": 0.7,
    "temperature_length": 9, "dynamic_temperature_range": 0.3, "dynamic_temperature_exponent": 1.5,
    "dynatemp_range": 0.3, "dynatemp_exponent": 1.5, "logit_bias": {"5": 1.0}, "allowed_tokens": [5],
    "banned_tokens": [5], "bad_words": ["x"], "allowed_token_ids": [5], "seed": 5, "n": 2, "max_tokens": 5,
    "max_completion_tokens": 5, "max_output_tokens": 5, "n_predict": 5, "min_tokens": 2, "min_new_tokens": 2,
    "stop": ["x"], "stop_sequences": ["x"], "stop_regex": "x", "stop_token_ids": [5], "include_stop_str": True,
    "ignore_eos": True, "stop_on_repetition": True, "on_repetition": "cool",
    "include_stop_str_in_output": True, "time_limit": 5.0, "t_max_predict_ms": 5000.0,
    "logprobs_mode": "processed", "prompt_logprobs": 2, "regex": "x", "choice": ["x"], "grammar": 'start: "x"',
    "json_schema": {"type": "null"}, "guided_json": {"type": "null"}, "guided_regex": "x", "guided_choice": ["x"],
    "guided_grammar": 'start: "x"', "speculate": "ngram",
}  # fmt: skip


@pytest.mark.parametrize("route", GENERATING)
def test_every_sampling_parameter_arrives(route: type[Choosing]) -> None:
    """Each field that names a parameter, on each route that has it, reaches the engine's parameter unchanged."""
    parameters = {field.name for field in dataclasses.fields(SamplingParams)} - {"logprobs"}
    taken = {name for name in route.model_fields if OURS.get(name, name) in parameters} - {"thinking_token_budget"}
    taken -= {"reasoning", "reasoning_budget"}  # the dialogue's
    assert taken <= VALUES.keys()
    for name in taken:
        said = BARE[route] | {name: VALUES[name]}
        if name == "temperature_end":
            said["temperature_length"] = 9
        fields, warnings = read_fields(route, said, strict=True)
        params, more, _ = sampling_params(fields, SamplingParams(), LimitsConfig(), {})
        expected = 5.0 if name == "t_max_predict_ms" else {5: 1.0} if name == "logit_bias" else VALUES[name]
        assert getattr(params, OURS.get(name, name)) == expected, name
        assert not warnings and not more
