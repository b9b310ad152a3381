"""Opens both formats; the contents of a path decide, not its suffix."""

from __future__ import annotations

import re
from pathlib import Path

from cutaway.errors import FormatError, ModelNotFoundError
from cutaway.formats.gguf import MAGIC
from cutaway.formats.model_file import MappedFile, ModelFile
from cutaway.formats.safetensors import INDEX_SUFFIX, open_safetensors, open_sharded
from cutaway.formats.splits import open_gguf

_SHARD_NAME = re.compile(r"(?P<prefix>.+)-\d{5}-of-\d{5}\.safetensors", re.DOTALL)
_LFS_POINTER = b"version https://git-lfs"


def open_model(path: Path | str) -> ModelFile:
    """Open a model: a .gguf file (any part of a split one), a .safetensors file, its index, or a directory.

    Raises ModelNotFoundError (nothing there, a part missing), FormatError (field and byte offset), UnsupportedError
    (a version or tensor type that is not read). Only headers are read; tensors are views of the mapped files.
    """
    path = Path(path)
    if path.is_dir():
        path = _find_model(path)
    if path.name.endswith(".json"):
        return open_sharded(path)
    shard = _SHARD_NAME.fullmatch(path.name)
    if shard is not None and path.is_file():
        index = path.with_name(shard["prefix"] + INDEX_SUFFIX)
        if not index.exists():
            raise ModelNotFoundError(f"{path.name} is one shard of a model, and its index {index} is missing")
        return open_sharded(index)
    file = MappedFile.open(path)
    if file.data[:4].tobytes() == MAGIC:
        return open_gguf(file)
    if file.data[: len(_LFS_POINTER)].tobytes() == _LFS_POINTER:
        raise FormatError(f"{path.name}: magic at byte 0: a Git LFS pointer, not the file itself", hint="git lfs pull")
    if path.suffix == ".safetensors":
        return open_safetensors(file)
    raise FormatError(f"{path.name}: magic at byte 0: {file.data[:4].tobytes()!r}, neither GGUF nor .safetensors")


def _find_model(folder: Path) -> Path:
    """The one model in a directory: an index before a single file, safetensors before GGUF."""
    names = sorted(entry.name for entry in folder.iterdir())
    for pattern in (r"model\.safetensors\.index\.json", r"model\.safetensors", r".*\.safetensors\.index\.json"):
        found = [name for name in names if re.fullmatch(pattern, name)]
        if len(found) == 1:
            return folder / found[0]
    found = [name for name in names if name.endswith(".safetensors")]
    found = found or [name for name in names if re.search(r"-00001-of-\d{5}\.gguf$", name)]
    found = found or [name for name in names if name.endswith(".gguf")]
    if not found:
        raise ModelNotFoundError(f"no .gguf or .safetensors file in {folder}")
    if len(found) > 1:
        raise ModelNotFoundError(f"{folder} holds several models: {', '.join(found[:5])}", hint="name one of them")
    return folder / found[0]
