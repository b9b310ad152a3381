"""GGUF models cut into parts, `NAME-00001-of-00003.gguf`: from any part to all of them.

Source: llama.cpp's gguf-split. Keys: split.no (from 0), split.count, split.tensors.count (over all parts).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cutaway.errors import FormatError, ModelNotFoundError
from cutaway.formats.gguf import GgufPart, read_gguf
from cutaway.formats.model_file import MappedFile, ModelFile, Tensor

_PART_NAME = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


def open_gguf(file: MappedFile) -> ModelFile:
    """Read a GGUF file and, if it is a part, the other parts. Raises FormatError, UnsupportedError,
    ModelNotFoundError (naming the missing part)."""
    part = read_gguf(file)
    count = _split_number(part, "split.count", 0)
    if count < 0:
        raise FormatError(f"{file.path.name}: split.count is {count}")
    parts = [part] if count <= 1 else _read_parts(part, count)
    tensors = _join(parts)
    first = parts[0]
    total = _split_number(first, "split.tensors.count", len(tensors))
    if count and total != len(tensors):
        raise FormatError(
            f"{first.file.path.name}: split.tensors.count is {total}, the parts found ({count}) hold {len(tensors)}"
        )
    return ModelFile(first.file.path, "gguf", [part.file for part in parts], tensors, metadata=first.metadata)


def _read_parts(opened: GgufPart, count: int) -> list[GgufPart]:
    """All parts in order, each read at its own place."""
    path = opened.file.path
    match = _PART_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise FormatError(
            f"{path.name}: split.count is {count}, but the file is not named as one of {count} parts",
            hint=f"name the parts PREFIX-00001-of-{count:05}.gguf",
        )
    paths = [path.with_name(f"{match['prefix']}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]
    missing = next(((number, each) for number, each in enumerate(paths, 1) if not each.exists()), None)
    if missing is not None:
        raise ModelNotFoundError(
            f"part {missing[0]} of {count} is missing: {missing[1]}", hint="all parts must be in one directory"
        )
    parts = [opened if path == each and index == 0 else read_gguf(MappedFile.open(each), index)
             for index, each in enumerate(paths)]  # fmt: skip
    for index, part in enumerate(parts):
        _check_place(part, index, count)
    return parts


def _check_place(part: GgufPart, index: int, count: int) -> None:
    for key, expected in (("split.no", index), ("split.count", count)):
        found = _split_number(part, key, -1)
        if found != expected:
            raise FormatError(f"{part.file.path.name}: {key} is {found}, expected {expected}")


def _split_number(part: GgufPart, key: str, default: int) -> int:
    metadata: Mapping[str, Any] = part.metadata
    value = metadata.get(key, default)
    if type(value) is not int:
        raise FormatError(f"{part.file.path.name}: {key} is {value!r}, not an integer")
    return value


def _join(parts: list[GgufPart]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for part in parts:
        for name, tensor in part.tensors.items():
            if name in tensors:
                first = parts[tensors[name].file].file.path.name
                raise FormatError(f"{part.file.path.name}: tensor {name!r} is also in {first}")
            tensors[name] = tensor
    return tensors
