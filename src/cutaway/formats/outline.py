"""A model file without its data: names, types and shapes, and values that are all zero and take no memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.formats.blocks import tensor_bytes
from cutaway.formats.model_file import U8, ModelFile, Tensor

# Up to so many bytes values are real zeros, which can be viewed as floats; beyond, one byte stands for all of them.
_REAL_ZEROS = 1 << 24
_ZERO = np.zeros(1, np.uint8)


def zeros(size: int, dimensions: int) -> U8:
    """uint8 [size] of a tensor's data."""
    if dimensions < 2 or size <= _REAL_ZEROS:
        return np.zeros(size, np.uint8)
    return np.broadcast_to(_ZERO, size)


def outline_of(
    name: str,
    format: str,
    tensors: Iterable[tuple[str, str, tuple[int, ...]]],
    *,
    metadata: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> ModelFile:
    """A file of these tensors: (name, type, row-major shape). Raises UnsupportedError, FormatError."""
    made = {n: Tensor(n, type, shape, zeros(tensor_bytes(type, shape), len(shape))) for n, type, shape in tensors}
    return ModelFile(Path(name), format, (), made, metadata=metadata or {}, config=config)


def without_data(file: ModelFile) -> ModelFile:
    """The outline of an opened file, which is not read any further."""
    tensors = ((t.name, t.type, t.shape) for t in file.tensors.values())
    return outline_of(str(file.path), file.format, tensors, metadata=file.metadata, config=file.config)
