"""The user's cache of models: files with the first 12 hex digits of their hash in their names, each with a manifest.

    $CUTAWAY_HOME (or $XDG_CACHE_HOME/cutaway, or ~/.cache/cutaway)
        models/NAME-HASH12.gguf      a model of one file
        models/NAME-HASH12/          a model of several files
        models/NAME-HASH12.json      its manifest; nothing is a model without one
        partial/KEY/                 a download on its way, emptied when it ends, however it ends
        locks/KEY.lock               held while a source is being fetched

A manifest's modification time is the time of the model's last use. A start from a path uses little of this, so what
fetching, hashing and removing need is imported there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a model: its name in the model's folder, its hash, its bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a model in the cache.

    sha256: of the file; for several files, of the lines "hash  name" sorted by name. size: bytes, in total. trust: how
    the hash was checked: "catalogue", "hub", or "first use" (not checked, but recorded). revision: the hub's commit, or
    "". created: seconds since the epoch.
    """

    name: str
    source: str
    revision: str
    sha256: str
    size: int
    licence: str
    format: str
    trust: str
    created: float
    files: tuple[StoredFile, ...]

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.sha256[:12]}"


def home() -> Path:
    """The cache directory. It may not exist yet."""
    chosen = os.environ.get("CUTAWAY_HOME")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "cutaway"


def calibrations_folder() -> Path:
    """What `cutaway bench calibrate` measured here."""
    return home() / "calibrations"


def models_folder() -> Path:
    return home() / "models"


def model_path(manifest: Manifest) -> Path:
    """The file of a model with one file, or the folder of a model with several."""
    if len(manifest.files) == 1:
        return models_folder() / (manifest.stem + Path(manifest.files[0].name).suffix)
    return models_folder() / manifest.stem


def manifest_path(manifest: Manifest) -> Path:
    return models_folder() / f"{manifest.stem}.json"


def stored() -> list[Manifest]:
    """The manifests of all models in the cache, by name. An unreadable manifest is not a model."""
    found = []
    for path in sorted(models_folder().glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            fields = json.loads(path.read_text(encoding="utf-8"))
            manifest = Manifest(**{**fields, "files": tuple(StoredFile(**f) for f in fields["files"])})
            if manifest.files and manifest_path(manifest) == path:
                found.append(manifest)
    return found


def is_whole(manifest: Manifest) -> bool:
    """Whether all files exist with their sizes (hashing them at every start would take too long)."""
    return all(p.is_file() and p.stat().st_size == f.size for p, f in _paths(manifest))


def first_wrong_file(manifest: Manifest) -> Path | None:
    """Hash every file of a model. Returns the first one that differs from the manifest."""
    for path, file in _paths(manifest):
        if not path.is_file() or hash_file(path) != file.sha256:
            return path
    return None


def _paths(manifest: Manifest) -> Iterator[tuple[Path, StoredFile]]:
    base = model_path(manifest)
    for file in manifest.files:
        yield (base if len(manifest.files) == 1 else base / file.name), file


def last_use(manifest: Manifest) -> float:
    """Seconds since the epoch."""
    return manifest_path(manifest).stat().st_mtime


def mark_used(manifest: Manifest) -> None:
    with contextlib.suppress(OSError):  # a read-only cache can still be used
        os.utime(manifest_path(manifest))


def place(payload: Path, manifest: Manifest) -> None:
    """Move a downloaded model into the cache: the files by one rename, and only then the manifest that makes it a
    model.

    payload: the file or the folder, on the cache's file system.
    """
    import shutil

    models_folder().mkdir(parents=True, exist_ok=True)
    target = model_path(manifest)
    if target.is_dir():
        shutil.rmtree(target)  # left by a crash between the two renames: it has no manifest
    payload.replace(target)
    text = json.dumps(dataclasses.asdict(manifest), indent=2, ensure_ascii=False)
    write_whole(manifest_path(manifest), text + "\n")


def discard(manifest: Manifest) -> None:
    """Remove a model: first the manifest, then its files and the files derived from them."""
    import shutil

    manifest_path(manifest).unlink(missing_ok=True)
    for path in models_folder().glob(f"{manifest.stem}*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that readers never see a part of it."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)


def hash_file(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    import hashlib

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def partial_folder(source: str) -> Iterator[Path]:
    """An empty folder for a download, under a lock that one process at a time holds per source. It is removed
    afterwards."""
    import hashlib
    import shutil

    key = hashlib.sha256(source.encode()).hexdigest()[:16]
    lock = home() / "locks" / f"{key}.lock"
    folder = home() / "partial" / key
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)  # its owner is dead, because the lock is ours
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
