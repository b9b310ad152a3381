"""Which model it is: the hash of its files, remembered until they change."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from cutaway.errors import HashMismatchError
from cutaway.formats import open_model
from cutaway.registry.store import Manifest, hash_file, home, model_path, write_whole


def model_hash(path: Path, manifest: Manifest | None, *, always: bool) -> tuple[str, bool]:
    """SHA-256 of a model, and whether its files were hashed now: not if size, time and inode are those of last time.

    Of several files: of the lines "hash  name", as the registry has it. always: hash in any case.
    Raises HashMismatchError where a manifest says otherwise.
    """
    known = {} if always else _remembered()
    read = False
    found: list[tuple[str, str]] = []
    for name, file in _files(path, manifest):
        state, key = file.stat(), str(file.resolve())
        mark = [state.st_size, state.st_mtime_ns, state.st_ino]
        entry = known.get(key)
        digest = str(entry[3]) if isinstance(entry, list) and entry[:3] == mark else ""
        if not digest:
            digest, read = hash_file(file), True
            _remember(key, [*mark, digest])
        found.append((name, digest))
    if manifest is not None:
        promised = {f.name: f.sha256 for f in manifest.files}
        for name, digest in found:
            if digest != promised[name]:
                raise HashMismatchError(
                    f"{name} has the SHA-256 {digest}, not {promised[name]}", hint="download it again: cutaway pull"
                )
        return manifest.sha256, read
    if len(found) == 1:
        return found[0][1], read
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(found))
    return hashlib.sha256(lines.encode()).hexdigest(), read


def _files(path: Path, manifest: Manifest | None) -> list[tuple[str, Path]]:
    """All files of a model: weights, and beside safetensors what the model cannot do without."""
    if manifest is not None:
        base = model_path(manifest)
        return [(f.name, base if len(manifest.files) == 1 else base / f.name) for f in manifest.files]
    with open_model(path) as file:
        files = list(file.files)
        if file.format != "gguf":
            files += [p for p in sorted(files[0].parent.glob("*.json")) if p not in files]
    return [(p.name, p) for p in files]


def _store() -> Path:
    return home() / "hashes.json"


def _remembered() -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(_store().read_text("utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _remember(key: str, entry: list[Any]) -> None:
    with contextlib.suppress(OSError):  # a read-only cache is still a cache
        _store().parent.mkdir(parents=True, exist_ok=True)
        write_whole(_store(), json.dumps(_remembered() | {key: entry}))
