"""An opened model: tensors as views of the mapped files, and the files' metadata."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import FormatError, ModelNotFoundError

U8 = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor and its place in its file.

    type: upper-case type name ("F32", "Q4_K", ...), a key of BLOCKS. shape: row-major (NumPy order): a matrix is (rows,
    inputs). raw: uint8 [bytes], a zero-copy view of the memory map, read-only. file, offset: index into
    ModelFile.files, and byte offset in that file.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    raw: U8
    file: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A whole file, mapped read-only. data: uint8 [size]. It must not be cut short while it is mapped: the system
    ends a process that reads a page which the file has lost."""

    path: Path
    map: mmap.mmap
    data: U8

    @classmethod
    def open(cls, path: Path) -> MappedFile:
        """Map a regular file. Raises ModelNotFoundError (no readable file there), FormatError (an empty one)."""
        try:
            # A pipe would block on open and a device has no size.
            if not stat.S_ISREG(path.stat().st_mode):
                raise ModelNotFoundError(f"{path} is not a regular file")
            with path.open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if size == 0:
                    raise FormatError(f"{path.name}: magic at byte 0: the file is empty")
                mapped = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ModelNotFoundError(f"cannot open {path}: {error}") from error
        return cls(path, mapped, np.frombuffer(mapped, np.uint8))


class ModelFile:
    """A model on disk, GGUF or safetensors: one file or several parts.

    path: what was opened (the first part, or the index). files: all files that hold tensors.
    format: "gguf" or "safetensors".
    metadata: GGUF key-values; arrays of numbers are NumPy arrays, of strings `StringArray`, which can raise FormatError
    when they are read; {} for safetensors.
    config: config.json beside safetensors, else None.
    """

    def __init__(
        self,
        path: Path,
        format: str,
        parts: Sequence[MappedFile],
        tensors: Mapping[str, Tensor],
        *,
        metadata: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.format = format
        self.files = tuple(part.path for part in parts)
        self.tensors = tensors
        self.metadata = metadata
        self.config = config
        self._parts = tuple(parts)

    def drop(self, tensor: Tensor) -> None:
        """Give a tensor's pages back to the system; the view stays valid and is read from disk again when touched.

        The page shared with the next tensor is kept, since that tensor is usually read next.
        """
        if not self._parts or not tensor.raw.size:
            return
        start = tensor.offset // mmap.PAGESIZE * mmap.PAGESIZE
        end = (tensor.offset + tensor.raw.size) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > start:
            self._parts[tensor.file].map.madvise(mmap.MADV_DONTNEED, start, end - start)

    def close(self) -> None:
        """Close the files. A view that is still in use stays valid; its file is unmapped after the last view."""
        self.tensors = {}
        self._parts = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
