"""The program from outside: exit statuses, one line per error, and terminals that know few characters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutaway.cli import main
from cutaway.cli.help import GROUPS, PANELS


def cutaway(*arguments: str, data: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "cutaway", *arguments], input=data, capture_output=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def status_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["pull", "no-such-model"], "model_not_found"),
        (["pull", "./missing.gguf"], "model_not_found"),
        (["pull", "hf:only-an-owner"], "parameter_invalid"),
        (["rm", "smollm2-135m"], "model_not_found"),
        (["tokens"], "parameter_invalid"),
        (["tokens", "a", "b"], "parameter_invalid"),
        (["tokens", "--file", "missing.txt"], "parameter_invalid"),
        (["config", "check", "missing.toml"], "config_invalid"),
        (["plan", "--context", "0"], "parameter_invalid"),
        (["plan", "--kv-k", "int4"], "parameter_invalid"),
        (["no-such-command"], "usage"),
        (["pull", "--no-such-option"], "usage"),
        (["tokens", "--model"], "usage"),
        (["run", ""], "parameter_invalid"),
        (["chat", "--choices", "2"], "parameter_invalid"),
        (["chat", "--logprobs", "1"], "parameter_invalid"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], code: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"cutaway: error[{code}]: ") and err.count("\n") == 1
    assert not cache.exists() or not [p for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock"]


def test_debug_shows_the_traceback_wherever_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("pull", "no-such-model", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err
    assert status_of("--debug", "pull", "no-such-model") == 2
    assert "Traceback" in capsys.readouterr().err


def test_faults_of_ours_are_told_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fault() -> None:
        raise ZeroDivisionError("one by zero")

    monkeypatch.setattr("cutaway.registry.models", fault)
    assert status_of("models") == 1
    assert "error[internal]: ZeroDivisionError: one by zero" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cutaway.registry.models", interrupt)
    assert status_of("models") == 130
    assert capsys.readouterr().err == "cutaway: interrupted\n"


def test_help_is_light() -> None:
    script = (
        "import sys\nfrom cutaway.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print({'numpy', 'rich', 'torch', 'pydantic', 'tokenizers', 'huggingface_hub', 'jinja2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--help") == 0
    listed = re.findall(r"^  ([a-z]+) ", capsys.readouterr().out.partition("Use:")[2], re.MULTILINE)
    assert listed == [name for names in GROUPS.values() for name in names], "each in its group, once"
    known = (
        "run chat serve pull models rm tokens prompt requests explain trace replay branch ps waterfall "
        "presets plan perplexity doctor config bench version"
    )
    assert set(listed) == set(known.split())
    for command in listed:
        assert status_of(command, "--help") == 0
        assert len(capsys.readouterr().out.splitlines()) > 3


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1"])
def test_any_terminal(encoding: str) -> None:
    done = cutaway("pull", "模型🙂", PYTHONIOENCODING=encoding)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and b"model_not_found" in done.stderr
    done = cutaway("pull", "模型🙂", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 2 and b"Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m cutaway models --all | head -1 >&2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("command", "closed", "status"),
    [
        ("presets", ">&-", 0), ("pull nothing-like-it", "2>&-", 2), ("pull x >&-", "2>&-", 2),
        ("run -", "<&-", 2), ("run -", "</dev/null", 2),
    ],
)
def test_streams_that_are_closed(command: str, closed: str, status: int) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m cutaway {command} {closed}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == status and done.stdout == "" and "internal" not in done.stderr
    assert "Traceback" not in done.stderr


def test_options_stand_in_panels_the_frequent_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("run", "--help") == 0
    out = capsys.readouterr().out
    panels = [line.rstrip(":") for line in out.splitlines() if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert panels == ["Arguments", *PANELS]
    assert all(f"--{name}" in out for name in ("top-n-sigma", "xtc-probability", "mirostat", "dry-base", "grammar"))
    assert max(map(len, out.splitlines())) <= 100 and out.isascii()


def test_help_names_values_by_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("run", "--help") == 0
    assert "<list[" not in capsys.readouterr().out


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("presets") == 0
    assert "structured" in capsys.readouterr().out
    assert status_of("presets", "--json") == 0
    assert json.loads(capsys.readouterr().out)["code"]["temperature"] == 0.2


def test_presets_say_where_values_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("presets") == 0
    chat = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("chat"))
    assert chat.split()[1:5] == ["0.2", "0.9", "0", "catalogue"]
    assert status_of("presets", "mistral-7b", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chat"]["from"] == "preset" and told["chat"]["temperature"] == 0.7
    assert status_of("presets", "no-such-model") == 2


def test_without_arguments_a_terminal_is_told_what_to_try(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of() == 0
    assert "Set up:" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert status_of() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all("cutaway" in line for line in lines)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("version") == 0
    assert capsys.readouterr().out.startswith("cutaway ")


def test_config_init_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("config", "check") == 0
    assert "there is no config; searched" in capsys.readouterr().err
    assert status_of("config", "init") == 0
    assert status_of("config", "check") == 0
    assert "cutaway.toml: valid" in capsys.readouterr().err
    file = tmp_path / "cutaway.toml"
    file.write_text("threads = 2\n[sampling]\ntop_k = 4\n", encoding="utf-8")
    assert status_of("config", "init") == 2
    assert file.read_text(encoding="utf-8").startswith("threads")
    capsys.readouterr()
    assert status_of("config", "check") == 0
    assert capsys.readouterr().out == "threads = 2\nsampling.top_k = 4\n"


def test_models_when_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("models", "--json", "--all") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["models"] == [] and told["catalogue"][0]["name"] == "smollm2-135m"
    assert status_of("models", "--all") == 0
    out, err = capsys.readouterr()
    assert "smollm2-135m" in out and "no models in" in err
