"""Tiny writers of both formats, and the two promises that damaged files are held to."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import FormatError, UnsupportedError
from cutaway.formats import dequantize, open_model

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class GgufWriter:
    """Pieces of a GGUF file, as bytes; `file` puts them together. A key is (name, kind, value), a tensor
    (name, extents fastest first, type number, data). An array's value is (element kind, list)."""

    @staticmethod
    def string(text: str | bytes) -> bytes:
        data = text.encode() if isinstance(text, str) else text
        return struct.pack("<Q", len(data)) + data

    @classmethod
    def value(cls, kind: int, value: Any) -> bytes:
        if kind == STRING:
            return cls.string(value)
        if kind == ARRAY:
            inner, items = value
            return struct.pack("<IQ", inner, len(items)) + b"".join(cls.value(inner, item) for item in items)
        return struct.pack("<" + SCALARS[kind], value)

    @classmethod
    def key(cls, name: str | bytes, kind: int, value: Any) -> bytes:
        return cls.string(name) + struct.pack("<I", kind) + cls.value(kind, value)

    @classmethod
    def record(cls, name: str | bytes, extents: Iterable[int], kind: int, offset: int) -> bytes:
        extents = list(extents)
        return cls.string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset)

    @staticmethod
    def join(
        keys: list[bytes], records: list[bytes], data: bytes = b"", *, alignment: int = 32, version: int = 3
    ) -> bytes:
        header = b"GGUF" + struct.pack("<IQQ", version, len(records), len(keys)) + b"".join(keys + records)
        return header + bytes(-len(header) % alignment) + data

    @classmethod
    def file(
        cls,
        keys: Iterable[tuple[str, int, Any]],
        tensors: Iterable[tuple[str, tuple[int, ...], int, bytes]],
        **join: Any,
    ) -> bytes:
        alignment = join.get("alignment", 32)
        records, data = [], b""
        for name, extents, kind, content in tensors:
            data += bytes(-len(data) % alignment)
            records.append(cls.record(name, extents, kind, len(data)))
            data += content
        return cls.join([cls.key(*key) for key in keys], records, data, **join)


def write_safetensors(tensors: Mapping[str, tuple[str, list[int], bytes]], **header: Any) -> bytes:
    """A safetensors file: name -> (dtype, shape, data); `header` adds entries as they are."""
    entries: dict[str, Any] = dict(header)
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return wrap_safetensors(json.dumps(entries).encode(), data)


def wrap_safetensors(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


@pytest.fixture(scope="session")
def gguf_writer() -> type[GgufWriter]:
    return GgufWriter


@pytest.fixture(scope="session")
def safetensors_writer() -> Callable[..., bytes]:
    return write_safetensors


@pytest.fixture(scope="session")
def safetensors_wrapper() -> Callable[..., bytes]:
    return wrap_safetensors


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for files that a property test writes again and again."""
    return tmp_path_factory.mktemp("formats")


def read_wholly(path: Path) -> None:
    """Open, and look at everything: each value, each tensor."""
    with open_model(path) as model:
        for key in model.metadata:
            _ = model.metadata[key]
        for tensor in model.tensors.values():
            assert dequantize(tensor.type, tensor.raw, tensor.shape).shape == tensor.shape
            model.drop(tensor)


@pytest.fixture(scope="session")
def survives(scratch: Path) -> Callable[[bytes, str], bool]:
    """Whether these bytes read; False if they were refused. Anything but the two errors escapes."""

    def survives(content: bytes, name: str) -> bool:
        path = scratch / name
        path.write_bytes(content)
        try:
            read_wholly(path)
        except FormatError as error:
            assert "byte" in error.message, error.message
            return False
        except UnsupportedError:
            return False
        return True

    return survives
