"""The file that a path means, and the error if there is none."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import FormatError, ModelNotFoundError
from cutaway.formats import open_model

Writer = Any


@pytest.fixture(scope="session")
def tiny(gguf_writer: Writer) -> bytes:
    content: bytes = gguf_writer.file([], [("a", (2,), 24, b"aa")])
    return content


def test_the_content_decides_not_the_suffix(tiny: bytes, tmp_path: Path) -> None:
    path = tmp_path / "blob-without-suffix"
    path.write_bytes(tiny)
    assert open_model(path).format == "gguf"


@pytest.mark.parametrize("name", ["", "nothing.gguf", "nothing.safetensors", "m.safetensors.index.json", "a\0b"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFoundError):
        open_model(tmp_path / name)


def test_several_models_in_a_directory_are_listed(tiny: bytes, tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(tiny)
    with pytest.raises(ModelNotFoundError, match=r"a\.gguf, b\.gguf"):
        open_model(tmp_path)
    (tmp_path / "a.gguf").unlink()
    assert open_model(tmp_path).path == tmp_path / "b.gguf"


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.touch()
    with pytest.raises(FormatError, match=r"a\.gguf: magic at byte 0: the file is empty"):
        open_model(path)


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    os.mkfifo(path)
    with pytest.raises(ModelNotFoundError, match="not a regular file"):
        open_model(path)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux what is resident")
def test_dropped_tensors_leave_memory(gguf_writer: Writer, tmp_path: Path) -> None:
    size = 1 << 24
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_writer.file([], [("a", (size,), 24, bytes(size)), ("b", (size,), 24, bytes(size))]))

    def resident_of_files() -> int:  # the kernel counts in batches, hence the loose bounds
        return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE

    with open_model(path) as model:
        before = resident_of_files()
        for tensor in model.tensors.values():
            assert not tensor.raw.any()
        touched = resident_of_files()
        assert touched - before > 1.5 * size
        model.drop(model.tensors["a"])
        assert 0.5 * size < touched - resident_of_files() < 1.5 * size
        model.drop(model.tensors["b"])
        assert resident_of_files() - before < 0.5 * size


def test_neither_format(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(FormatError, match="neither GGUF nor"):
        open_model(path)


@pytest.mark.parametrize("name", ["a.gguf", "a.safetensors"])
def test_a_pointer_to_the_file_is_not_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    with pytest.raises(FormatError, match="Git LFS pointer"):
        open_model(path)
