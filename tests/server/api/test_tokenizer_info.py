"""GET /tokenizer_info: enough for a client to write the same prompts."""

from __future__ import annotations

import jinja2
import pytest

from server.serving import HELLO, Running

pytestmark = pytest.mark.models


def test_what_it_names_makes_the_prompt_of_a_chat(smol: Running) -> None:
    told = smol.client.get("/tokenizer_info").json()
    engine = smol.service.roster.models["smol"].engine
    assert engine is not None
    assert told["model_max_length"] == engine.context and told["vocab_size"] == engine.tokenizer.vocab_size
    assert (told["bos_token"], told["eos_token"]) == ("<|im_start|>", "<|im_end|>")
    tokens = {name: told[name] for name in ("bos_token", "eos_token", "pad_token")}
    written = jinja2.Template(told["chat_template"]).render(messages=HELLO, add_generation_prompt=True, **tokens)
    assert written == smol.client.post("/apply-template", json={"messages": HELLO}).json()["prompt"]


def test_the_model_is_named_in_the_query(smol: Running) -> None:
    assert smol.client.get("/tokenizer_info", params={"model": "smol"}).status_code == 200
    missing = smol.client.get("/tokenizer_info", params={"model": "another"})
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "model_not_found"
