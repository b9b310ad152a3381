"""Safetensors: one file, or shards with an index. Source: the safetensors format description (Hugging Face).

    header length u64 · header, a JSON object: name -> {dtype, shape, data_offsets: [begin, end]} · data

Offsets count from the end of the header; together they cover the data without gap or overlap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from cutaway.errors import CutawayError, FormatError, ModelNotFoundError, UnsupportedError
from cutaway.formats.blocks import tensor_bytes
from cutaway.formats.model_file import MappedFile, ModelFile, Tensor

INDEX_SUFFIX = ".safetensors.index.json"
MAX_HEADER = 100_000_000
MAX_DIMENSIONS = 64
_SHARD_NAME = re.compile(r"[^/\\\0]+\.safetensors")
_MAX_JSON = 1 << 26
# Lists and objects in a JSON text: an empty one costs three bytes there and seventy here.
_MAX_NESTS = 1 << 22

# dtype of the header -> our type name.
DTYPES = {
    name: name
    for name in ("BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "BF16", "F32", "F64", "F8_E4M3")
} | {"F8_E5M2": "F8_E5M2"}


def open_safetensors(file: MappedFile) -> ModelFile:
    """A model in one file. Raises FormatError, UnsupportedError."""
    return ModelFile(
        file.path, "safetensors", [file], read_safetensors(file), metadata={}, config=_read_config(file.path.parent)
    )


def open_sharded(index: Path) -> ModelFile:
    """A model in shards, by its index. Raises ModelNotFoundError (naming the missing shard), FormatError."""
    if not index.is_file():
        raise ModelNotFoundError(f"no file {index}")
    shards = _read_weight_map(index)
    names = sorted(set(shards.values()))
    for name in names:
        if not (index.parent / name).exists():
            raise ModelNotFoundError(f"shard {name}, which {index.name} names, is missing from {index.parent}")
    files = [MappedFile.open(index.parent / name) for name in names]
    tensors: dict[str, Tensor] = {}
    for number, file in enumerate(files):
        for name, tensor in read_safetensors(file, number).items():
            if shards.get(name, file.path.name) != file.path.name:
                continue  # the index takes this one from another shard
            if name in tensors:
                raise FormatError(f"{file.path.name}: tensor {name!r} is also in {files[tensors[name].file].path.name}")
            tensors[name] = tensor
    for name, shard in shards.items():
        if name not in tensors:
            raise FormatError(f"{index.name}: weight_map: tensor {name!r} is not in {shard}")
    return ModelFile(index, "safetensors", files, tensors, metadata={}, config=_read_config(index.parent))


def read_safetensors(file: MappedFile, index: int = 0) -> dict[str, Tensor]:
    """Tensors of one file, in the header's order. index: its place among the shards."""
    name, size = file.path.name, len(file.data)
    if size < 8:
        raise FormatError(f"{name}: header length at byte 0: needs 8 bytes, the file has {size}")
    length = int.from_bytes(file.map[:8], "little")
    if length > MAX_HEADER or length > size - 8:
        raise FormatError(f"{name}: header length at byte 0: {length}, limit {MAX_HEADER}, left in the file {size - 8}")
    if file.map[8:9] != b"{":
        raise FormatError(f"{name}: header at byte 8: does not begin with '{{'")
    header = _parse_json(file.map[8 : 8 + length], f"{name}: header at byte 8")
    _check_notes(header.pop("__metadata__", {}), name)
    base = 8 + length
    tensors = {key: _read_entry(file, index, base, key, entry) for key, entry in header.items()}
    _check_cover(file, tensors, base)
    return tensors


def _check_notes(notes: Any, name: str) -> None:
    if not isinstance(notes, dict) or not all(isinstance(value, str) for value in notes.values()):
        raise FormatError(f"{name}: header at byte 8: __metadata__ is not a map from text to text")


def _read_entry(file: MappedFile, index: int, base: int, key: str, entry: Any) -> Tensor:
    """One tensor's record, checked against the file."""
    where = f"{file.path.name}: header at byte 8: tensor {key!r}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"{where}: needs exactly dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str):
        raise FormatError(f"{where}: dtype is not text")
    if dtype not in DTYPES:
        raise UnsupportedError(f"{where}: dtype {dtype!r} is not supported")
    if not _counts(shape) or len(shape) > MAX_DIMENSIONS:
        raise FormatError(f"{where}: shape is not a list of sizes")
    if not _counts(offsets) or len(offsets) != 2:
        raise FormatError(f"{where}: data_offsets is not a pair of offsets")
    begin, end = offsets
    needed = tensor_bytes(DTYPES[dtype], tuple(shape))
    if end - begin != needed:
        raise FormatError(f"{where}: data_offsets [{begin}, {end}] span {end - begin} bytes, its shape needs {needed}")
    if base + end > len(file.data):
        raise FormatError(f"{where}: its data would end at byte {base + end}, the file has {len(file.data)}")
    return Tensor(key, DTYPES[dtype], tuple(shape), file.data[base + begin : base + end], index, base + begin)


def _counts(value: Any) -> bool:
    """Whether this is a list of integers that fit 64 bits (JSON's true and 1.0 are not)."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value)


def _check_cover(file: MappedFile, tensors: Mapping[str, Tensor], base: int) -> None:
    """The data is covered exactly once."""
    at = base
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.offset, tensor.raw.size)):
        if tensor.offset != at:
            fault = "overlaps another" if tensor.offset < at else f"leaves {tensor.offset - at} bytes before it unused"
            raise FormatError(f"{file.path.name}: tensor {tensor.name!r}: its data at byte {tensor.offset} {fault}")
        at += tensor.raw.size
    if at != len(file.data):
        raise FormatError(f"{file.path.name}: data at byte {at}: {len(file.data) - at} bytes belong to no tensor")


def _read_weight_map(index: Path) -> dict[str, str]:
    shards = _read_object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise FormatError(f"{index.name}: weight_map is missing or empty")
    for tensor, shard in shards.items():
        # A shard is in the folder of its index; a path outside of it could be any file.
        if not isinstance(shard, str) or not _SHARD_NAME.fullmatch(shard):
            raise FormatError(f"{index.name}: weight_map: tensor {tensor!r}: {shard!r} is not the name of a shard")
    return shards


def _read_config(folder: Path) -> Mapping[str, Any] | None:
    path = folder / "config.json"
    # Configurations in the wild repeat names and say Infinity.
    return _read_object(path, strict=False) if path.is_file() else None


def _read_object(path: Path, *, strict: bool = True) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > _MAX_JSON:
            raise FormatError(f"{path.name} at byte 0: {size} bytes, limit {_MAX_JSON}")
        text = path.read_bytes()
    except OSError as error:
        raise ModelNotFoundError(f"cannot open {path}: {error}") from error
    return _parse_json(text, f"{path.name} at byte 0", strict=strict)


def _parse_json(text: bytes, where: str, *, strict: bool = True) -> dict[str, Any]:
    """A JSON object; strict: with unique names and no NaN. Raises FormatError, also for nesting beyond reason."""
    if text.count(b"[") + text.count(b"{") > _MAX_NESTS:
        raise FormatError(f"{where}: more than {_MAX_NESTS} lists and objects")
    hooks: dict[str, Any] = {"object_pairs_hook": _unique, "parse_constant": _refuse_constant} if strict else {}
    try:
        value = json.loads(text.decode(), **hooks)
    except CutawayError as error:
        raise FormatError(f"{where}: {error.message}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FormatError(f"{where}: not a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise FormatError(f"{name!r} appears twice")
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise FormatError(f"{name} is not JSON")
