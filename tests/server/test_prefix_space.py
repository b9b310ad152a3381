"""Models whose tokenizer puts a space before a text (Llama 2, Mistral, TinyLlama), through the server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, Running, config_for, running
from text.prefixed import gguf_keys, saved
from tiny_llama import write_folder, write_gguf

TEMPLATE = "{% for m in messages %}{{ bos_token }}[INST] {{ m.content }} [/INST]{% endfor %}"
PROMPT = "The capital of France is"


@pytest.fixture(scope="module", params=["gguf", "prepend", "first", "always"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    if request.param == "gguf":
        path = write_gguf(folder / "tiny.gguf", gguf_keys() | {"tokenizer.chat_template": TEMPLATE})
    else:
        path = write_folder(folder, saved(folder, request.param).vocab_size)
        config = folder / "tokenizer_config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"chat_template": TEMPLATE}))
    with running(config_for(path)) as server:
        yield server


def token(server: Running, piece: str) -> int:
    engine = server.service.roster.models["smol"].engine
    assert engine is not None
    return engine.tokenizer.vocabulary.ids[piece]


def chat(server: Running, **fields: Any) -> str:
    reply = server.ok(CHAT, messages=[{"role": "user", "content": PROMPT}], max_tokens=120, seed=3, **fields)
    return str(reply["choices"][0]["message"]["content"])


CHOICES = ["Paris", " Paris", "The capital"]
SCHEMA = {"type": "object", "properties": {"a": {"const": "Paris"}}, "required": ["a"], "additionalProperties": False}


def test_constraints_begin_without_the_space(server: Running) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    assert json.loads(chat(server, response_format=form)) == {"a": "Paris"}
    assert chat(server, response_format={"type": "json_object"}).startswith("{")
    assert chat(server, structured_outputs={"choice": CHOICES}) in CHOICES
    for pattern in (r"Paris is \{[ab]\}", " The", "capital(, capital){2}"):
        assert re.fullmatch(pattern, chat(server, structured_outputs={"regex": pattern}))
        # Nothing but <s> before it: a text begins, but no part of the requested text is dropped.
        reply = server.ok(COMPLETIONS, prompt=[1], max_tokens=40, structured_outputs={"regex": pattern})
        assert re.fullmatch(pattern, reply["choices"][0]["text"])


def test_what_continues_a_prompt_keeps_its_space(server: Running) -> None:
    bias = {"logit_bias": {str(token(server, "\u2581Paris")): 100}, "max_tokens": 2}
    for fields, text in (({}, " Paris Paris"), ({"echo": True}, PROMPT + " Paris Paris")):
        reply = server.ok(COMPLETIONS, prompt=PROMPT, **bias, **fields)
        assert reply["choices"][0]["text"] == text
        chunks = server.chunks(COMPLETIONS, prompt=PROMPT, **bias, **fields)
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == text
    stopped = server.ok(COMPLETIONS, prompt=PROMPT, stop=" Paris", **bias)["choices"][0]
    assert (stopped["text"], stopped["finish_reason"]) == ("", "stop")
    whole = server.ok(COMPLETIONS, prompt=[1], **bias)["choices"][0]
    assert whole["text"] == "Paris Paris"
    reply = server.ok(CHAT, messages=[{"role": "user", "content": PROMPT}], **bias)
    assert reply["choices"][0]["message"]["content"] == " Paris Paris"


def test_log_probabilities_lie_where_their_text_is(server: Running) -> None:
    bias = {"logit_bias": {str(token(server, "\u2581Paris")): 100}, "max_tokens": 2}
    told = server.ok(COMPLETIONS, prompt=PROMPT, logprobs=1, **bias)["choices"][0]["logprobs"]
    assert (told["tokens"], told["text_offset"]) == ([" Paris"] * 2, [0, 6])
    told = server.ok(COMPLETIONS, prompt=PROMPT, logprobs=1, echo=True, **bias)["choices"][0]
    text, told = told["text"], told["logprobs"]
    assert told["tokens"][1] == " The" and told["text_offset"][1:3] == [0, 3]
    for piece, offset in list(zip(told["tokens"], told["text_offset"], strict=True))[2:]:
        assert text.startswith(piece, offset)


def test_the_routes_for_tokens(server: Running) -> None:
    ids = server.ok("/tokenize", prompt=PROMPT)["tokens"]
    assert ids[1] == token(server, "\u2581The")
    assert server.ok("/detokenize", tokens=ids[1:])["prompt"] == PROMPT
    ids = server.ok("/tokenize", messages=[{"role": "user", "content": "The"}])["tokens"]
    engine = server.service.roster.models["smol"].engine
    assert engine is not None
    first = "[" if engine.path.parent.name.startswith("first") else "\u2581"
    assert [engine.tokenizer.piece(id) for id in ids[:2]] == ["<s>", first]


def test_bad_words_are_found_inside_a_text(server: Running) -> None:
    bias = {"logit_bias": {str(token(server, piece)): 100 for piece in ("\u2581Paris", "\u2581hello")}, "max_tokens": 3}
    assert "Paris" not in server.ok(COMPLETIONS, prompt=PROMPT, bad_words=["Paris"], **bias)["choices"][0]["text"]
