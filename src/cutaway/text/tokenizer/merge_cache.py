"""Caches merges that are costly to find, in a small file beside the model or in the user's cache directory.

The file: 8 bytes of magic, the 32-byte key (a hash of everything that determines the merges), a 32-byte hash of the
rest, then the merges as little-endian int32 pairs. A file that differs from that in any way is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"cutmrg\x00\x03"
_HASH = 32


def content_key(*parts: bytes) -> bytes:
    """A 32-byte hash of the parts, each with its length."""
    digest = hashlib.blake2b(digest_size=_HASH)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def read(path: Path, key: bytes) -> NDArray[np.int32] | None:
    """The cached merges of this model with this key, int32 [merges, 2]; None if there are no valid ones."""
    for place in _places(path, key):
        try:
            content = place.read_bytes()
        except OSError:
            continue
        head = len(_MAGIC) + 2 * _HASH
        body = content[head:]
        if content[:head] == _MAGIC + key + content_key(body) and len(body) % 8 == 0:
            return np.frombuffer(body, "<i4").reshape(-1, 2)
    return None


def write(path: Path, key: bytes, merges: NDArray[np.int32]) -> Path | None:
    """Store merges at the first place that is writable. Returns the place, or None. Readers never see an incomplete
    file."""
    body = np.ascontiguousarray(merges, "<i4").tobytes()
    for place in _places(path, key):
        with contextlib.suppress(OSError):
            _write_whole(place, (_MAGIC, key, content_key(body), body))
            return place
    return None


def _places(path: Path, key: bytes) -> list[Path]:
    """Beside the model, then the user's cache directory."""
    name = f"{key.hex()[:12]}.cutaway-merges"
    places = [(path if path.is_dir() else path.parent) / f".{name}"]
    with contextlib.suppress(RuntimeError):  # the user has no home directory
        cache = os.environ.get("XDG_CACHE_HOME")
        places.append((Path(cache) if cache else Path.home() / ".cache") / "cutaway" / "tokenizers" / name)
    return places


def _write_whole(place: Path, parts: Iterable[bytes]) -> None:
    if not place.name.startswith("."):
        place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f"{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        Path(name).chmod(0o644)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
