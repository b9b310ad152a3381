"""/infill as editors ask for it, and markers that a file names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutaway.server.api.infill import Gap
from cutaway.text import Tokenizer, fill_markers
from cutaway.text.tokenizer.load import load_tokenizer
from server.serving import Running, config_for, running
from text.conftest import byte_level
from tiny_llama import write_gguf

NAMES = ("pre", "suf", "mid", "pad", "rep", "sep")
OWN = [f"<x{name}>" for name in NAMES]  # no name that anything here knows


def keys(named: dict[str, int]) -> dict[str, Any]:
    """A byte-level vocabulary with six more control tokens, and these roles for them."""
    found = byte_level()
    first = len(found["tokenizer.ggml.tokens"])
    found["tokenizer.ggml.tokens"] = [*found["tokenizer.ggml.tokens"], *OWN]
    found["tokenizer.ggml.token_type"] = [*map(int, found["tokenizer.ggml.token_type"]), *[3] * len(OWN)]
    return found | {f"tokenizer.ggml.{key}_token_id": (first + at if at >= 0 else at) for key, at in named.items()}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    roles = {f"fim_{name}": at for at, name in enumerate(NAMES)}
    path = write_gguf(tmp_path_factory.mktemp("fim") / "tiny.gguf", keys(roles))
    with running(config_for(path)) as server:
        yield server


def tokenizer_of(server: Running) -> Tokenizer:
    engine = server.service.roster.models["smol"].engine
    assert engine is not None
    return engine.tokenizer


def test_markers_come_from_the_file(named: Running) -> None:
    tokenizer = tokenizer_of(named)
    markers = fill_markers(tokenizer)
    assert markers is not None
    ids = [tokenizer.vocabulary.ids[name] for name in OWN]
    assert [*markers[:3], markers.repository, markers.file] == [*ids[:3], *ids[4:]]
    assert markers.ends == set(ids)


@pytest.mark.parametrize(("roles", "whole"), [
    ({"prefix": 0, "suffix": 1, "middle": 2}, True),  # the older names
    ({"fim_pre": 0, "fim_suf": 1, "fim_mid": 2, "fim_rep": -1}, True),  # -1: no token
    ({"fim_pre": 0, "fim_suf": 1}, False), ({"fim_pre": 0, "fim_suf": 1, "fim_mid": -1}, False), ({}, False),
])  # fmt: skip
def test_older_names_and_roles_that_nothing_has(roles: dict[str, int], whole: bool, tmp_path: Path) -> None:
    markers = fill_markers(load_tokenizer(tmp_path / "model.gguf", keys(roles)))
    assert (markers is not None) is whole
    assert markers is None or (markers.repository, markers.file) == (None, None)


def test_the_prompt_has_the_form_of_llama_cpp(named: Running) -> None:
    tokenizer = tokenizer_of(named)
    markers = fill_markers(tokenizer)
    assert markers is not None

    def shown(gap: Gap) -> str:
        return tokenizer.decode(gap._tokens(tokenizer, markers), skip_special=False)

    assert shown(Gap("a = ", "\n", begun="1")) == "<xpre>a = 1<xsuf>\n<xmid>"
    files = [("b.py", "x\n"), ("c.py", "y\n")]
    repository = "<xrep>myproject\n<xsep>b.py\nx\n<xsep>c.py\ny\n<xsep>filename\n"
    assert shown(Gap("a = ", "\n", files)) == f"{repository}<xpre>a = <xsuf>\n<xmid>"
    bare = markers._replace(file=None)
    text = tokenizer.decode(Gap("a", "", files)._tokens(tokenizer, bare), skip_special=False)
    assert text == "b.py\nx\n\n\nc.py\ny\n\n\n<xpre>a<xsuf><xmid>"


EDITOR = {
    "id_slot": 0, "input_prefix": "def f(x):\n", "input_suffix": "\n", "prompt": "    return ", "n_predict": 8,
    "input_extra": [{"text": "y = 2\n", "filename": "b.py", "time": [1, 2]}, {"text": "z = 3\n"}], "n_indent": 4,
    "stop": ["\n\n"], "top_k": 40, "top_p": 0.9, "samplers": ["top_k", "top_p", "infill"], "stream": False,
    "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 60_000, "seed": 3,
}  # fmt: skip
"""What an editor's plugin for llama.cpp sends."""


def test_a_plugin_of_an_editor_is_answered(named: Running) -> None:
    reply = named.ok("/infill", **EDITOR)
    assert reply["content"] and reply["stop"] is True and reply["stop_type"] in ("eos", "limit", "word")
    assert reply["tokens_predicted"] <= 8 and reply["has_new_line"] is ("\n" in reply["content"])
    assert [warning for warning in reply.get("warnings", []) if "input_extra" not in warning] == []
    timings = reply["timings"]
    assert timings["cache_n"] + timings["prompt_n"] == reply["tokens_evaluated"]
    assert timings["predicted_n"] == reply["tokens_predicted"] and timings["prompt_ms"] > 0
    rate = timings["predicted_per_second"] * timings["predicted_per_token_ms"]
    assert rate == pytest.approx(1000)
    wanted = ["content", "timings/prompt_n", "timings/predicted_ms", "truncated", "unheard/of"]
    chosen = named.ok("/infill", **EDITOR, response_fields=wanted)
    assert list(chosen) == wanted[:-1] and chosen["content"] == reply["content"]
    assert "prefill" in named.ok("/infill", **EDITOR, timings=True)["timings"]


def test_a_prompt_alone_warms_the_cache(named: Running) -> None:
    """n_predict 0, which plugins send for files that they will need."""
    reply = named.ok("/infill", **EDITOR | {"n_predict": 0, "input_prefix": "warm " * 8})
    assert (reply["content"], reply["tokens_predicted"]) == ("", 0)
    assert named.ok("/infill", **EDITOR | {"input_prefix": "warm " * 8})["tokens_cached"] > 16


def test_a_stream_has_the_same_text_and_the_figures_last(named: Running) -> None:
    whole = named.ok("/infill", **EDITOR)
    # no [DONE] at the end, as with llama.cpp
    *pieces, last = map(json.loads, named.events("/infill", **EDITOR | {"stream": True}))
    assert "".join(piece["content"] for piece in pieces) == whole["content"]
    assert last["stop"] is True and last["tokens_predicted"] == whole["tokens_predicted"]
    assert "prompt_n" in last["timings"]


@pytest.mark.parametrize("wrong", [[{"filename": "a"}], [{"text": 5}], [{"text": "a", "filename": 5}], "a", [3]])
def test_wrong_files_are_refused(named: Running, wrong: Any) -> None:
    assert "input_extra" in str(named.refused("/infill", **EDITOR | {"input_extra": wrong}))


@pytest.mark.models
def test_a_real_model_fills_the_gap(qwen_path: Path) -> None:
    with running(config_for(qwen_path)) as server:
        asked = {"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n\nprint(add(2, 3))\n"}
        reply = server.ok("/infill", **asked, temperature=0, n_predict=16)
        assert reply["content"].strip().startswith("a + b") and reply["stop_type"] == "eos"
