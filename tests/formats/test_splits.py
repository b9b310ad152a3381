"""Split GGUF files: any part opens the whole, and what does not fit is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import FormatError, ModelNotFoundError
from cutaway.formats import dequantize, open_model

Writer = Any


def part_name(number: int, count: int = 3) -> str:
    return f"tiny-{number:05}-of-{count:05}.gguf"


def write_parts(
    w: Writer, folder: Path, *, total: int = 3, names: str = "abc", count: int = 3, numbers: str = "012"
) -> None:
    """Three parts; the first holds the metadata and no tensor, as gguf-split can make it."""
    contents = ["", names[0], names[1:]]
    for index, letters in enumerate(contents):
        keys = [("split.no", 2, int(numbers[index])), ("split.count", 2, count), ("split.tensors.count", 5, total)]
        if index == 0:
            keys.insert(0, ("general.architecture", 8, "llama"))
        tensors = [(letter, (2,), 24, letter.encode() * 2) for letter in letters]
        (folder / part_name(index + 1)).write_bytes(w.file(keys, tensors))


@pytest.mark.parametrize("opened", [1, 2, 3])
def test_any_part_opens_the_whole(gguf_writer: Writer, tmp_path: Path, opened: int) -> None:
    write_parts(gguf_writer, tmp_path)
    with open_model(tmp_path / part_name(opened)) as model:
        assert model.path == tmp_path / part_name(1)
        assert model.files == tuple(tmp_path / part_name(number) for number in (1, 2, 3))
        assert model.metadata["general.architecture"] == "llama"
        assert {name: (t.file, t.raw.tobytes()) for name, t in model.tensors.items()} == {
            "a": (1, b"aa"), "b": (2, b"bb"), "c": (2, b"cc"),
        }  # fmt: skip
        for tensor in model.tensors.values():
            model.drop(tensor)
            assert dequantize(tensor.type, tensor.raw, tensor.shape)[0] == ord(tensor.name)


def test_a_directory_of_parts_is_one_model(gguf_writer: Writer, tmp_path: Path) -> None:
    write_parts(gguf_writer, tmp_path)
    assert len(open_model(tmp_path).files) == 3


@pytest.mark.parametrize(("missing", "opened"), [(2, 1), (2, 3), (1, 2), (3, 2)])
def test_a_missing_part_is_named(gguf_writer: Writer, tmp_path: Path, missing: int, opened: int) -> None:
    write_parts(gguf_writer, tmp_path)
    (tmp_path / part_name(missing)).unlink()
    with pytest.raises(ModelNotFoundError, match=f"part {missing} of 3 is missing.*{part_name(missing)}"):
        open_model(tmp_path / part_name(opened))


def test_the_tensor_total_is_checked(gguf_writer: Writer, tmp_path: Path) -> None:
    write_parts(gguf_writer, tmp_path, total=4)
    with pytest.raises(FormatError, match=r"split.tensors.count is 4, the parts found \(3\) hold 3"):
        open_model(tmp_path / part_name(1))


def test_a_tensor_in_two_parts_is_refused(gguf_writer: Writer, tmp_path: Path) -> None:
    write_parts(gguf_writer, tmp_path, names="aba")
    with pytest.raises(FormatError, match=f"{part_name(3)}: tensor 'a' is also in {part_name(2)}"):
        open_model(tmp_path / part_name(1))


def test_parts_in_each_others_place_are_refused(gguf_writer: Writer, tmp_path: Path) -> None:
    write_parts(gguf_writer, tmp_path, numbers="021")
    with pytest.raises(FormatError, match=f"{part_name(2)}: split.no is 2, expected 1"):
        open_model(tmp_path / part_name(1))


def test_a_renamed_part_is_refused(gguf_writer: Writer, tmp_path: Path) -> None:
    write_parts(gguf_writer, tmp_path)
    path = (tmp_path / part_name(2)).rename(tmp_path / "model.gguf")
    with pytest.raises(FormatError, match=r"split.count is 3, but the file is not named as one of 3 parts"):
        open_model(path)


def test_another_count_is_refused(gguf_writer: Writer, tmp_path: Path) -> None:
    write_parts(gguf_writer, tmp_path, count=4)
    with pytest.raises(FormatError, match=r"split.count is 4"):
        open_model(tmp_path / part_name(1))


def test_counts_that_are_no_counts_are_refused(gguf_writer: Writer, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    for kind, value in ((8, "3"), (5, -1)):
        path.write_bytes(gguf_writer.file([("split.count", kind, value)], []))
        with pytest.raises(FormatError, match=r"split.count is"):
            open_model(path)


def test_a_whole_file_may_say_that_it_is_one(gguf_writer: Writer, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    for count, total in ((0, 0), (1, 1)):
        keys = [("split.no", 2, 0), ("split.count", 2, count), ("split.tensors.count", 5, total)]
        path.write_bytes(gguf_writer.file(keys, [("a", (2,), 24, b"aa")]))
        assert list(open_model(path).tensors) == ["a"]
