"""Identifies a model: the hash of its files, and a fingerprint of everything that can change the bits of an answer."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import cutaway
from cutaway.errors import HashMismatchError
from cutaway.formats import open_model
from cutaway.ops.backends import open_backend
from cutaway.registry import Manifest, home
from cutaway.registry.store import hash_file, model_path, write_whole


def model_hash(path: Path, manifest: Manifest | None, *, always: bool) -> tuple[str, bool]:
    """SHA-256 of a model, and whether its files were hashed now. They are not if size, time and inode have not changed.

    For several files it is the hash of the lines "hash  name", as in the registry. always: hash in any case. Raises
    HashMismatchError if a manifest has another hash.
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


def instruction_set(backend: str) -> str:
    """The instruction set of this machine's engine."""
    return open_backend(backend).describe().instruction_set


def _files(path: Path, manifest: Manifest | None) -> list[tuple[str, Path]]:
    """All files of a model: the weights, and for safetensors the files that the model needs."""
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
    with contextlib.suppress(OSError):  # a read-only cache can still be used
        _store().parent.mkdir(parents=True, exist_ok=True)
        write_whole(_store(), json.dumps(_remembered() | {key: entry}))


def fingerprint(sha256: str, instruction_set: str, **settings: Any) -> str:
    """A readable fingerprint: `cutaway-0.1.0.8e2071a54b51.avx512.kv_k-bf16.kv_v-bf16`. With equal fingerprints the same
    request and seed give the same bits. settings: those that change bits, without None."""
    said = [f"{name}-{value}" for name, value in sorted(settings.items()) if value is not None]
    return ".".join([f"cutaway-{cutaway.__version__}", sha256[:12], instruction_set, *said])
