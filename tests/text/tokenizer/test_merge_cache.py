from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.text.tokenizer import merge_cache

MERGES = np.arange(10, dtype=np.int32).reshape(5, 2)
KEY = merge_cache.content_key(b"a", b"b")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_written_is_read_and_stands_beside_the_model(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    assert merge_cache.read(model, KEY) is None
    assert merge_cache.write(model, KEY, MERGES) == files(tmp_path)[0]
    found = merge_cache.read(model, KEY)
    assert found is not None
    assert np.array_equal(found, MERGES)
    assert files(tmp_path)[0].parent == tmp_path
    assert len(files(tmp_path)) == 1


def test_where_the_folder_cannot_be_written_the_users_cache_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = tmp_path / "no such folder" / "model.gguf"
    kept = merge_cache.write(model, KEY, MERGES)
    assert kept is not None
    assert kept.is_relative_to(tmp_path / "cache")
    assert merge_cache.read(model, KEY) is not None
    assert not model.parent.exists()


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    model = tmp_path / "no such folder" / "model.gguf"
    assert merge_cache.write(model, KEY, MERGES) is None
    assert merge_cache.read(model, KEY) is None


def test_another_key_finds_nothing_even_in_a_file_with_its_name(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    place = merge_cache.write(model, KEY, MERGES)
    assert place is not None
    other = KEY[:6] + bytes(26)
    assert merge_cache.read(model, other) is None
    assert merge_cache.content_key(b"a", b"b") != merge_cache.content_key(b"ab", b"")


@pytest.mark.parametrize("place", range(0, 112, 7))
def test_no_changed_byte_is_trusted(tmp_path: Path, place: int) -> None:
    model = tmp_path / "model.gguf"
    file = merge_cache.write(model, KEY, MERGES)
    assert file is not None
    content = bytearray(file.read_bytes())
    assert len(content) == 112
    content[place] ^= 1
    file.write_bytes(content)
    assert merge_cache.read(model, KEY) is None
    file.write_bytes(content[:place])
    assert merge_cache.read(model, KEY) is None
