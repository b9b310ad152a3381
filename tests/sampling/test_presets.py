from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.errors import ParameterError
from cutaway.sampling import PRESETS, generation_settings, own_options, preset

TABLE = {
    "code": (0.2, 0.9, 40),
    "math": (0.1, 0.9, 0),
    "writing": (0.8, 0.95, 80),
    "classification": (0, 1, 0),
    "structured": (0, 1, 0),
    "agent": (0.3, 0.85, 80),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table(name: str) -> None:
    params = preset(name)
    assert (params.temperature, params.top_p, params.top_k) == TABLE[name]
    assert PRESETS[name].name == name
    assert PRESETS[name].use


def test_explicit_options_override() -> None:
    params = preset("code", temperature=0.5, seed=3)
    assert (params.temperature, params.top_p, params.seed) == (0.5, 0.9, 3)


def test_chat_takes_the_models_own() -> None:
    gguf = {"general.sampling.temp": np.float32(0.6), "general.sampling.top_k": np.int32(20), "general.name": "x"}
    assert own_options(gguf) == {"temperature": 0.6, "top_k": 20}
    params = preset("chat", gguf, top_p=0.5)
    assert (params.temperature, params.top_k, params.top_p) == (0.6, 20, 0.5)
    assert preset("chat", {}) == preset("chat")
    assert preset("code", gguf).temperature == 0.2
    generation = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1, "eos": 2}
    assert preset("chat", generation).repetition_penalty == 1.1
    assert preset("chat", {"do_sample": False}).temperature == 0


def test_what_the_makers_recommend_holds_where_the_files_say_nothing(tmp_path: Path) -> None:
    recommended = {"temperature": 0.2, "top_p": 0.9}
    params = preset("chat", {}, recommended)
    assert (params.temperature, params.top_p, params.top_k) == (0.2, 0.9, 0)
    assert preset("chat", {"general.sampling.temp": 0.6}, recommended).temperature == 0.6
    assert preset("writing", {}, recommended).temperature == 0.8
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.5}', "utf-8")
    assert own_options(generation_settings(tmp_path, {})) == {"temperature": 0.5}
    assert generation_settings(tmp_path / "x.safetensors", {}) == {"temperature": 0.5}
    (tmp_path / "generation_config.json").write_text("[1", "utf-8")
    assert generation_settings(tmp_path, {}) == {}


def test_unknown() -> None:
    with pytest.raises(ParameterError, match="preset is 'poetry'; it must be one of: chat, code"):
        preset("poetry")
    with pytest.raises(ParameterError, match="heat is not a sampling parameter"):
        preset("code", heat=1)
