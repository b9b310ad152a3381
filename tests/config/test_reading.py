"""cutaway.toml: its valid contents, and the errors of invalid ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.config import (
    EXAMPLE,
    Config,
    check_names,
    check_served,
    config_paths,
    find_config,
    load_config,
    parse_bytes,
    parse_config,
    reading,
)
from cutaway.errors import ConfigError


def test_the_example_is_a_config_as_it_stands_and_with_every_line_set() -> None:
    assert parse_config(EXAMPLE) == Config()
    setting = re.compile(r'# (?=[\["]|[\w-]+ = )')
    config = parse_config("\n".join(setting.sub("", line, count=1) for line in EXAMPLE.splitlines()))
    assert config.model == "smollm2-135m" and config.sampling.temperature == 0.7 and config.kv_v == "bf16"
    assert config.server.port == 8000 and config.models[0].name == "small" and config.limits.queue == 256
    assert config.aliases is not None and config.aliases["experiment"] == {
        "smollm2-135m": 0.9,
        "qwen2.5-coder-0.5b": 0.1,
    }
    assert parse_bytes(config.server.memory or 0) == 6_000_000_000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("model = smollm2", "a text needs quotes"),
        ("model = \u201csmollm2\u201d", "typographic"),
        ("strict = True", "small letters"),
        ("seed = null", "leave the line out"),
        ("model: x", "not key: value"),
        ("model", "a key needs a value"),
        ('model = "C:\\models\\q.gguf"', "a backslash"),
        ('model = "x', "closing quote"),
        ("[server", "a section is written [name]"),
        ("port = 1\nport = 2", "stands there twice"),
    ],
)
def test_the_usual_mistakes_are_named(line: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(line)
    assert words in raised.value.message


def test_a_renamed_key_is_taken_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RENAMED", {"server.listen_port": "port", "n_ctx": "context"})
    warned: list[str] = []
    config = parse_config("n_ctx = 5\n[server]\nlisten_port = 99", warn=warned.append)
    assert (config.context, config.server.port) == (5, 99)
    assert "server.listen_port is now called port" in warned[0] and len(warned) == 2


@pytest.mark.parametrize(("said", "value"), [(5, 5), ("6 GB", 6 * 10**9), ("512MiB", 2**29), ("1.5k", 1500), ("7", 7)])
def test_sizes(said: str | int, value: int) -> None:
    assert parse_bytes(said) == value


def test_a_size_that_is_none() -> None:
    with pytest.raises(ConfigError, match="such as 6 GB"):
        parse_bytes("much")


def test_wrong_syntax_shows_the_line() -> None:
    with pytest.raises(ConfigError, match="line 2, column 11") as raised:
        parse_config('model = "a"\nthreads = = 2\n')
    assert raised.value.code == "config_invalid"
    lines = raised.value.message.splitlines()
    assert lines[1].strip() == "threads = = 2"
    assert lines[2].index("^") - lines[1].index("threads") == 10


def test_wrong_syntax_at_the_end() -> None:
    with pytest.raises(ConfigError, match="line 1"):
        parse_config("model = ")
    with pytest.raises(ConfigError):
        parse_config('model = """a')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("treads = 2", "unknown key 'treads'; did you mean 'threads'?"),
        ("zzz = 2", "unknown key 'zzz'; known: model, "),
        ("[sampling]\ntemprature = 1", "'sampling.temprature'; did you mean 'temperature'?"),
        ("[sampling]\ntemperature = -1.0", "sampling.temperature must be greater than or equal to 0, and is -1.0"),
        ('threads = "2"', "threads must be a valid integer, and is '2'"),
        ('kv_k = "int4"', "kv_k must be 'f32', 'bf16', 'int8' or 'fp8', and is 'int4'"),
        ("sampling = 3", "sampling must be"),
        ("[server]\nprot = 1", "'server.prot'; did you mean 'port'?"),
        ("port = 1", "unknown key 'port'; there is server.port"),
        ("[[models]]\nname = 'x'", "models.0.model is missing"),
        ("[[models]]\nmodel = 'x'\nmax_request = 3", "did you mean 'max_requests'?"),
        ("[limits]\nqueue = -1", "limits.queue must be greater than or equal to 0, and is -1"),
        ("[aliases]\na = 1", "aliases.a must be"),
    ],
)
def test_wrong_content_names_key_expected_and_given(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(text)
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[server]\nmemory = "lots"', "a size such as 6 GB"),
        ('[[models]]\nmodel = "a"\nname = "x"\n[[models]]\nmodel = "b"\nname = "x"', "two models are served as 'x'"),
        ('[aliases]\ny = "xx"\n[[models]]\nmodel = "a"\nname = "x"', "aliases.y names 'xx'; the served models are x"),
        ('[aliases]\ny = { x = 1, z = 2 }\n[[models]]\nmodel = "a"\nname = "x"', "aliases.y names 'z'"),
        ('[aliases]\nx = "x"\n[[models]]\nmodel = "a"\nname = "x"', "also the name of a served model"),
        ('[aliases]\ny = {}\n[[models]]\nmodel = "a"\nname = "x"', "aliases.y names no model"),
    ],
)
def test_what_a_server_could_not_use_is_said_without_one(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_served(parse_config(text), "cutaway.toml")
    assert words in raised.value.message
    check_served(parse_config('[aliases]\ny = "of its own"\n[[models]]\nmodel = "a.gguf"'), "cutaway.toml")
    check_served(parse_config('[aliases]\ny = "later"'), "cutaway.toml")


def test_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert find_config() is None and load_config() == Config()
    here, user = config_paths()
    user.parent.mkdir(parents=True)
    user.write_text('model = "user"', encoding="utf-8")
    assert load_config().model == "user"
    here.write_bytes(b"\xef\xbb\xbf" + 'model = "模型"'.encode())  # with the mark that Windows editors write
    assert load_config().model == "模型"


def test_a_missing_file_lists_the_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "none.toml")
    assert str(tmp_path / "none.toml") in raised.value.hint and str(tmp_path / "xdg") in raised.value.hint


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "cutaway.toml"
    path.write_bytes(b"model = \xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(path)


@given(st.text())
def test_any_text_gives_a_config_or_a_config_error(text: str) -> None:
    try:
        assert isinstance(parse_config(text), Config)
    except ConfigError as error:
        assert error.message


def test_names_are_held_against_each_other_as_far_as_they_are_known() -> None:
    check_names(["x", "y"], {"a": "x", "b": {"x": 1.0, "y": 2.0}})
    check_names(["x"], {"a": "of a file"}, known=False)
    with pytest.raises(ConfigError) as raised:
        check_names(["x", "y"], {"a": "yy"}, where="here: ")
    assert raised.value.message == "here: aliases.a names 'yy'; the served models are x, y"
    assert raised.value.hint == "did you mean 'y'?"
