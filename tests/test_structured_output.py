"""Constraints, tools and reasoning through the engine, on a real model."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cutaway import Engine, SamplingParams
from cutaway.errors import ParameterError
from cutaway.sampling.constraints.tool_calls import tool_constraint
from cutaway.text.chat.reasoning import ReasoningFormat, split_reasoning
from cutaway.text.tools.parser import ToolParser, gathered, parse_tools

pytestmark = pytest.mark.models
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
CHAT = [{"role": "user", "content": "Invent a person."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"enum": ["Paris", "Rome"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[Engine]:
    with Engine.load(smollm2_path, context=160, contexts=1, max_requests=6) as loaded:
        yield loaded


def test_each_choice_keeps_the_schema(engine: Engine) -> None:
    result = engine.generate(CHAT, SamplingParams(json_schema=SCHEMA, n=2, seed=1, max_tokens=80, temperature=1.5))[0]
    for answer in result.answers:
        assert answer.stop.kind == "end_token"
        person = json.loads(answer.text)
        assert list(person) == ["name", "age"]
        assert len(person["name"]) <= 12
        assert 0 <= person["age"] <= 130
    assert len({answer.text for answer in result.answers}) > 1


def test_company_and_preemption_change_nothing(engine: Engine) -> None:
    params = [
        SamplingParams(regex=r"([a-z]+ ){20}end", seed=seed, max_tokens=80, temperature=1.3) for seed in range(5)
    ]
    alone = [engine.generate(CHAT, each)[0] for each in params]
    together = engine.generate([CHAT] * 5, params)
    assert [result.token_ids for result in together] == [result.token_ids for result in alone]
    assert sum(result.timings.preemptions for result in together) > 0
    assert all(result.text.count(" ") <= 20 for result in together)


def test_streamed_tool_calls_equal_the_whole(engine: Engine) -> None:
    """Whatever the model writes within the grammar: one call or several, whole or cut short by the limit."""
    made = tool_constraint("smollm", [TOOL], engine.tokenizer, choice="required")
    whole = 0
    for seed in range(3, 9):
        params = SamplingParams(grammar=made.grammar, visible_tokens=made.visible_tokens, seed=seed, max_tokens=100)
        parser, events, text = ToolParser("smollm", names=["weather"], new_id=numbered()), [], ""
        for delta in engine.stream(CHAT, params):
            events += parser.push(delta.text)
            text += delta.text
        events += parser.finish()
        told = gathered(events)
        assert told == parse_tools(text, "smollm", names=["weather"], new_id=numbered())
        if text.endswith("</tool_call>"):
            whole += 1
            assert told.content == ""
            assert told.calls
            assert all(json.loads(call.arguments)["city"] in ("Paris", "Rome") for call in told.calls)
    assert whole


def numbered() -> Callable[[], str]:
    """New ids for calls, the same in every run."""
    numbers = itertools.count()
    return lambda: f"id{next(numbers)}"


def test_a_reasoning_budget_and_then_a_choice(engine: Engine) -> None:
    think = ReasoningFormat()
    params = SamplingParams(
        choice=["red", "green"], reasoning=think, reasoning_open=True, reasoning_budget=6, seed=2, max_tokens=40
    )
    result = engine.generate(CHAT, params)[0]
    piece = split_reasoning(result.text, think, open=True)
    assert piece.content in ("red", "green")
    assert result.stop.kind == "end_token"


def test_what_cannot_be_enforced_is_refused_and_the_engine_goes_on(engine: Engine) -> None:
    with pytest.raises(ParameterError, match="uniqueItems"):
        engine.generate(CHAT, SamplingParams(json_schema={"type": "array", "uniqueItems": True}))
    assert engine.generate(CHAT, SamplingParams(choice=["yes", "no"]))[0].text in ("yes", "no")


def test_keywords_that_do_not_constrain_are_told(engine: Engine) -> None:
    result = engine.generate(CHAT, SamplingParams(json_schema={"enum": [1, 2], "colour": "red"}))[0]
    assert result.text in ("1", "2")
    assert "'colour'" in result.warnings[0]
