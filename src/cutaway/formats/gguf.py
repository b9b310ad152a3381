"""GGUF, versions 2 and 3, little-endian: header, metadata and tensor records. Every length is checked before use.

Source: the GGUF specification (ggml repository, docs/gguf.md).

    magic "GGUF" · version u32 · tensor count u64 · key count u64
    keys:     name string · value type u32 · value             string: length u64 · UTF-8 bytes
    tensors:  name string · dimensions u32 · extents u64 (fastest first) · type u32 · offset u64
    padding to the alignment · tensor data; offsets count from here
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cutaway.errors import FormatError, UnsupportedError
from cutaway.formats.blocks import GGUF_TYPES, REFUSED_TYPES, tensor_bytes
from cutaway.formats.model_file import U8, MappedFile, Tensor
from cutaway.formats.string_array import StringArray, locate_strings

MAGIC = b"GGUF"
VERSIONS = (2, 3)

# Bounds far above any real model: they keep a hostile header from costing minutes or gigabytes.
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 18
MAX_NAME = (1 << 16) - 1
MAX_STRINGS = 1 << 22
MAX_STRING_BYTES = 1 << 26
MAX_ARRAY_BYTES = 1 << 28
MAX_NESTED = 1 << 16
MAX_DEPTH = 4
MAX_DIMENSIONS = 4
DEFAULT_ALIGNMENT = 32

_UINT32, _BOOL, _STRING, _ARRAY = 4, 7, 8, 9
_SCALARS: dict[int, np.dtype[Any]] = {
    0: np.dtype("u1"), 1: np.dtype("i1"), 2: np.dtype("<u2"), 3: np.dtype("<i2"), 4: np.dtype("<u4"),
    5: np.dtype("<i4"), 6: np.dtype("<f4"), 7: np.dtype("?"), 10: np.dtype("<u8"), 11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}  # fmt: skip
_STRUCTS = {kind: struct.Struct("<" + code) for kind, code in zip(_SCALARS, "BbHhIif?Qqd", strict=True)}


class Metadata(Mapping[str, Any]):
    """Key-values of a GGUF file. Arrays of numbers are copied on first use; strings stay in the file."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._pending: dict[str, Callable[[], Any]] = {}

    def __getitem__(self, key: str) -> Any:
        pending = self._pending.get(key)
        if pending is not None:
            self._values[key] = pending()
            self._pending.pop(key, None)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __repr__(self) -> str:
        return f"Metadata({', '.join(self._values)})"

    def put(self, key: str, value: Any) -> None:
        """Add a key; a callable is called for its value on first use."""
        self._values[key] = value
        if callable(value):
            self._pending[key] = value


@dataclass(frozen=True, slots=True)
class GgufPart:
    """One GGUF file, read up to its tensor data."""

    file: MappedFile
    metadata: Metadata
    tensors: dict[str, Tensor]


class _Cursor:
    """Walks a header. `field` names what is being read, for the error."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file
        self.data: U8 = file.data
        self.map = file.map
        self.size = len(file.data)
        self.at = 0
        self.nested = 0
        self.strings = 0

    def fail(self, field: str, reason: str, at: int | None = None) -> FormatError:
        return FormatError(f"{self.file.path.name}: {field} at byte {self.at if at is None else at}: {reason}")

    def skip(self, size: int, field: str) -> int:
        """Advance; returns where the skipped bytes start."""
        start = self.at
        if size > self.size - start:
            raise self.fail(field, f"needs {size} bytes, {self.size - start} are left in the file")
        self.at = start + size
        return start

    def scalar(self, kind: int, field: str) -> Any:
        form = _STRUCTS[kind]
        at = self.skip(form.size, field)
        if kind == _BOOL and self.map[at] > 1:
            raise self.fail(field, f"a boolean must be 0 or 1, not {self.map[at]}", at)
        return form.unpack_from(self.map, at)[0]

    def u32(self, field: str) -> int:
        return int(self.scalar(_UINT32, field))

    def u64(self, field: str) -> int:
        return int(self.scalar(10, field))

    def string(self, field: str, limit: int = MAX_STRING_BYTES) -> str:
        at = self.at
        length = self.u64(f"{field} (length)")
        if length > limit:
            raise self.fail(f"{field} (length)", f"{length} bytes, limit {limit}", at)
        start = self.skip(length, field)
        try:
            return self.map[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise self.fail(field, "not UTF-8", start + error.start) from error


def read_gguf(file: MappedFile, index: int = 0) -> GgufPart:
    """Read one file. index: its place among the parts, for the tensors. Raises FormatError, UnsupportedError."""
    cursor = _Cursor(file)
    tensor_count, key_count = _read_preamble(cursor)
    metadata = Metadata()
    for number in range(key_count):
        at = cursor.at
        key = cursor.string(f"key {number} of {key_count}", MAX_NAME)
        if key in metadata:
            raise cursor.fail(f"key {number} of {key_count}", f"{key!r} appears twice", at)
        metadata.put(key, _read_value(cursor, key))
        if key == "general.alignment":
            _check_alignment(cursor, metadata[key], at)
    records = [_read_record(cursor, number, tensor_count) for number in range(tensor_count)]
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    return GgufPart(file, metadata, _place_tensors(cursor, records, alignment, index))


def _read_preamble(cursor: _Cursor) -> tuple[int, int]:
    """Magic, version and counts. Returns (tensors, keys)."""
    magic = bytes(cursor.data[:4])
    if magic != MAGIC:
        raise cursor.fail("magic", f"{magic!r} is not {MAGIC!r}", 0)
    cursor.at = 4
    version = cursor.u32("version")
    if version not in VERSIONS:
        order = "; it is big-endian" if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, 2, 3) else ""
        raise UnsupportedError(f"{cursor.file.path.name}: GGUF version {version} at byte 4 is not 2 or 3{order}")
    counts = []
    for field, limit, least in (("tensor count", MAX_TENSORS, 24), ("key count", MAX_KEYS, 13)):
        at = cursor.at
        count = cursor.u64(field)
        if count > limit or count * least > cursor.size:
            raise cursor.fail(field, f"{count} cannot be in a file of {cursor.size} bytes (limit {limit})", at)
        counts.append(count)
    return counts[0], counts[1]


def _check_alignment(cursor: _Cursor, alignment: Any, at: int) -> None:
    if type(alignment) is not int or alignment < 8 or alignment & (alignment - 1) or alignment >= 1 << 32:
        raise cursor.fail("general.alignment", f"{alignment} is not a power of two, 8 or more", at)


def _read_value(cursor: _Cursor, key: str) -> Any:
    at = cursor.at
    kind = cursor.u32(f"{key} (value type)")
    if kind in _STRUCTS:
        return cursor.scalar(kind, key)
    if kind == _STRING:
        return cursor.string(key)
    if kind == _ARRAY:
        return _read_array(cursor, key, 0)
    raise cursor.fail(f"{key} (value type)", f"{kind} is not a GGUF value type", at)


def _read_array(cursor: _Cursor, field: str, depth: int) -> Callable[[], Any]:
    """Step over an array; returns what decodes it."""
    at = cursor.at
    kind = cursor.u32(f"{field} (element type)")
    count_at = cursor.at
    count = cursor.u64(f"{field} (length)")
    if kind in _SCALARS:
        return _read_numbers(cursor, field, kind, count)
    if kind == _STRING:
        return _read_strings(cursor, field, count, count_at)
    if kind != _ARRAY:
        raise cursor.fail(f"{field} (element type)", f"{kind} is not a GGUF value type", at)
    cursor.nested += count
    if depth + 1 >= MAX_DEPTH:
        raise cursor.fail(f"{field} (element type)", f"arrays are nested deeper than {MAX_DEPTH}", at)
    if cursor.nested > MAX_NESTED:
        raise cursor.fail(f"{field} (length)", f"more than {MAX_NESTED} nested arrays", count_at)
    inner = [_read_array(cursor, f"{field}[{number}]", depth + 1) for number in range(count)]
    return lambda: [decode() for decode in inner]


def _read_strings(cursor: _Cursor, field: str, count: int, count_at: int) -> Callable[[], Any]:
    cursor.strings += count
    if cursor.strings > MAX_STRINGS or count * 8 > cursor.size - cursor.at:
        reason = f"{count} strings, limit {MAX_STRINGS} in all, {cursor.size - cursor.at} bytes are left in the file"
        raise cursor.fail(f"{field} (length)", reason, count_at)
    name, data = f"{cursor.file.path.name}: {field}", cursor.data
    offsets = locate_strings(data, cursor.at, count, name)
    if int(offsets[-1]) - cursor.at > MAX_ARRAY_BYTES:
        raise cursor.fail(field, f"{int(offsets[-1]) - cursor.at} bytes of strings, limit {MAX_ARRAY_BYTES}")
    cursor.at = int(offsets[-1])
    return lambda: StringArray(data, offsets, name)


def _read_numbers(cursor: _Cursor, field: str, kind: int, count: int) -> Callable[[], Any]:
    dtype, data = _SCALARS[kind], cursor.data
    if count * dtype.itemsize > MAX_ARRAY_BYTES:
        raise cursor.fail(f"{field} (length)", f"{count} numbers, limit {MAX_ARRAY_BYTES} bytes", cursor.at - 8)
    start = cursor.skip(count * dtype.itemsize, field)
    end = cursor.at
    if kind == _BOOL and count and int(data[start:end].max()) > 1:
        raise cursor.fail(field, "a boolean must be 0 or 1", start)
    return lambda: data[start:end].view(dtype).copy()


@dataclass(frozen=True, slots=True)
class _Record:
    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    size: int
    at: int


def _read_record(cursor: _Cursor, number: int, count: int) -> _Record:
    at = cursor.at
    name = cursor.string(f"name of tensor {number} of {count}", MAX_NAME)
    field = f"tensor {name!r}"
    dimensions = cursor.u32(f"{field} (dimensions)")
    if dimensions > MAX_DIMENSIONS:
        raise cursor.fail(f"{field} (dimensions)", f"{dimensions}, at most {MAX_DIMENSIONS}", cursor.at - 4)
    extents = [cursor.u64(f"{field} (extents)") for _ in range(dimensions)]
    if 0 in extents:
        raise cursor.fail(f"{field} (extents)", f"{extents} holds a zero", cursor.at - 8 * dimensions)
    type_at = cursor.at
    kind = cursor.u32(f"{field} (type)")
    if kind not in GGUF_TYPES:
        known = f" ({REFUSED_TYPES[kind]})" if kind in REFUSED_TYPES else ""
        raise UnsupportedError(
            f"{cursor.file.path.name}: {field} (type) at byte {type_at}: type number {kind}{known} is not supported"
        )
    shape = tuple(reversed(extents))
    offset = cursor.u64(f"{field} (offset)")
    try:
        size = tensor_bytes(GGUF_TYPES[kind], shape)
    except FormatError as error:
        raise cursor.fail(f"{field} (extents)", error.message, at) from error
    return _Record(name, GGUF_TYPES[kind], shape, offset, size, at)


def _place_tensors(cursor: _Cursor, records: list[_Record], alignment: int, index: int) -> dict[str, Tensor]:
    """Check names, alignment, bounds and overlaps; returns views of the data, in the header's order."""
    base = -(-cursor.at // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for record in records:
        field = f"tensor {record.name!r}"
        start, end = base + record.offset, base + record.offset + record.size
        if record.name in tensors:
            raise cursor.fail(field, "this name appears twice", record.at)
        if record.offset % alignment:
            raise cursor.fail(f"{field} (offset)", f"{record.offset} is not a multiple of {alignment}", record.at)
        if end > cursor.size:
            reason = f"its data would end at byte {end}, the file has {cursor.size}"
            raise cursor.fail(f"{field} (offset)", reason, record.at)
        raw = cursor.data[start:end]
        tensors[record.name] = Tensor(record.name, record.type, record.shape, raw, index, start)
    ordered = sorted(records, key=lambda record: record.offset)
    for before, after in pairwise(ordered):
        if before.offset + before.size > after.offset:
            reason = f"its data at {after.offset} overlaps tensor {before.name!r}"
            raise cursor.fail(f"tensor {after.name!r} (offset)", reason, after.at)
    return tensors
