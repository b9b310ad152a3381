"""One function makes the prompt: every route and Python have the same of the same chat."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutaway.assemble import Engine
from cutaway.text import ChatTemplate
from server.serving import CHAT, Running, config_for, running

pytestmark = pytest.mark.models
FUNCTION = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": FUNCTION}]
HEAD = "{% if add_generation_prompt %}[answer]{% endif %}"
SHOWS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}" + HEAD
CASES: list[tuple[str, dict[str, Any]]] = [
    ("developer", {"messages": [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}]}),
    ("reasoning", {"messages": [{"role": "user", "content": "Hi"},
                                {"role": "assistant", "reasoning": "Hm", "content": "Yes"},
                                {"role": "user", "content": "No"}]}),
    ("tools", {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}),
    ("tools and developer", {"messages": [{"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
                                          {"role": "user", "content": "Hi"}], "tools": TOOLS}),
    ("continued", {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes,"}],
                   "continue_final_message": True}),
    ("no head", {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": False}),
]  # fmt: skip


@pytest.fixture(scope="module")
def server(smollm2_path: Path) -> Iterator[Running]:
    config = config_for(smollm2_path)
    with running(replace(config, logging=replace(config.logging, prompts=True))) as made:
        yield made


def engine_of(server: Running) -> Engine:
    engine = server.service.roster.models["smol"].engine
    assert engine is not None
    return engine


@pytest.mark.parametrize("source", [None, SHOWS], ids=["own template", "one that shows no tools"])
@pytest.mark.parametrize(("name", "fields"), CASES, ids=[name for name, _ in CASES])
def test_the_same_everywhere(server: Running, name: str, fields: dict[str, Any], source: str | None) -> None:
    engine = engine_of(server)
    before = engine.template
    if source is not None:
        engine.template = ChatTemplate(source, engine.tokenizer)
    try:
        reply = server.ok(CHAT, **fields, max_tokens=1, return_token_ids=True)
        ids = reply["prompt_token_ids"]
        tokenized = server.ok("/tokenize", **fields)
        applied = server.ok("/apply-template", **fields)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            python = engine.token_ids(fields["messages"], **{k: v for k, v in fields.items() if k != "messages"})
    finally:
        engine.template = before
    assert tokenized["tokens"] == ids == python
    assert engine.tokenizer.decode(ids) == applied["prompt"]
    told = [str(warning.message) for warning in caught]
    assert tokenized.get("warnings", []) == applied.get("warnings", []) == told
    assert set(told) <= set(reply.get("warnings", []))
    if "developer" in name:
        assert "system" in applied["prompt"] and "developer" not in applied["prompt"]
    if "tools" in name:
        assert applied["prompt"].count('"weather"') >= 1


def test_flags_that_exclude_each_other(server: Running) -> None:
    fields = CASES[4][1] | {"add_generation_prompt": True}
    for path in (CHAT, "/tokenize", "/apply-template"):
        error = server.refused(path, **fields)
        assert error["code"] == "parameter_invalid" and "cannot be combined" in error["message"]


def test_a_role_that_is_markup_is_refused_everywhere(server: Running) -> None:
    for path in (CHAT, "/tokenize", "/apply-template"):
        error = server.refused(path, messages=[{"role": "user|>", "content": "a"}])
        assert error["code"] == "messages_invalid"
