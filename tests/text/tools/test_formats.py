from __future__ import annotations

import json
from pathlib import Path

import pytest

from cutaway.errors import ParameterError
from cutaway.formats import open_model
from cutaway.text import load_template, load_tokenizer
from cutaway.text.tools.formats import (
    TOOL_FORMATS,
    control_markers,
    detect_tool_format,
    renders_tools,
    tool_format,
    tool_instructions,
)
from cutaway.text.tools.parser import parse_tools


@pytest.mark.parametrize(
    ("source", "family", "format"),
    [
        ("{% for tool in tools %}<tool_call>\\n{{ x }}", "qwen2", "hermes"),
        ("<tool_call>[{...}]</tool_call>", "llama", "smollm"),
        ("[TOOL_CALLS] [", "llama", "mistral"),
        ("[TOOL_CALLS]name[ARGS]", "llama", "mistral_args"),
        ("<|tool|>{{ tools }}<|/tool|>", "phi3", "phi"),
        ("<|start_header_id|>ipython<|end_header_id|>", "llama", "llama3"),
        ("<start_of_turn>{{ role }}", "gemma3", "gemma"),
        ("<|im_start|>", "smollm2", "smollm"),
        (None, "qwen3", "hermes"),
        (None, "gpt2", None),
    ],
)
def test_detection(source: str | None, family: str, format: str | None) -> None:
    assert detect_tool_format(source, family) == format


def test_renders_tools() -> None:
    assert renders_tools("{% if tools %}")
    assert not renders_tools("{{ messages }}")
    assert not renders_tools(None)


@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_instructions_show_a_call_that_can_be_read(format: str) -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    said = tool_instructions(format, [tool])
    assert json.dumps(tool["function"]) in said
    shown = said.split("nothing but\n")[1].split("\nIf no function")[0]
    shown = shown.replace(", ...", "").replace("<argument>", '"a"').replace("<value>", "1")
    shown = shown.replace("<name>", "add" if format == "mistral_args" else '"add"')
    assert [(call.name, call.arguments) for call in parse_tools(shown, format).calls] == [("add", '{"a": 1}')]


def test_unknown_format() -> None:
    with pytest.raises(ParameterError, match="it must be one of: hermes"):
        tool_format("xml")


@pytest.mark.models
def test_the_real_models(qwen_path: Path, smollm2_path: Path) -> None:
    with open_model(qwen_path) as file:
        tokenizer = load_tokenizer(qwen_path, file.metadata)
        template = load_template(qwen_path, file.metadata, tokenizer)
        assert template is not None
        assert detect_tool_format(template.source, "qwen2") == "hermes"
        assert renders_tools(template.source)
        assert control_markers(["<tool_call>", "<|im_end|>", "<nothing>"], tokenizer) == (151645,)
    with open_model(smollm2_path) as file:
        template = load_template(smollm2_path, file.metadata, load_tokenizer(smollm2_path, file.metadata))
        assert template is not None
        assert not renders_tools(template.source)
